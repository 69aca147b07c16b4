import { screen } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { expect, test, vi } from 'vitest'
import { serve, showPage } from '../../test/page'
import { Export } from './Export'

test('a spec is exported as the files of a layout, each to be saved by its name', async () => {
  const saved: string[] = []
  vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function click(this: HTMLAnchorElement) {
    saved.push(this.download)
  })
  Object.assign(URL, { createObjectURL: () => 'blob:x', revokeObjectURL: () => undefined })
  const { asked: calls } = serve(({ path }) =>
    path.endsWith('/export') ? { files: { '.kiro/specs/units/design.md': '# D', '.kiro/specs/units/tasks.md': '# T' } } : undefined,
  )
  showPage(() => <Export id="spec-1" isBegun />)
  await userEvent.selectOptions(await screen.findByLabelText('Layout'), 'kiro')
  await userEvent.click(await screen.findByRole('button', { name: 'Download .kiro/specs/units/design.md' }))
  await userEvent.click(screen.getByRole('button', { name: 'Download all 2 files' }))
  expect(saved).toEqual(['design.md', 'design.md', 'tasks.md'])
  expect(calls[0]?.query).toEqual({ layout: 'kiro' })
})
