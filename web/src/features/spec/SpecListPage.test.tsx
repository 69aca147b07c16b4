import { screen, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { useState } from 'react'
import { expect, test } from 'vitest'
import { refused, serve, showPage, type Answer } from '../../test/page'
import { specDetail } from './fixtures'
import type { SpecListSearch } from './search'
import { SpecListPage } from './SpecListPage'

const projects = { items: [{ id: 'prj-1', name: 'units', archived: false }], next: null }

function show(answer: Answer, search: SpecListSearch = {}) {
  const { asked: calls } = serve((asked) => (asked.path === '/projects' ? projects : answer(asked)))
  showPage(function Shown() {
    const [kept, setKept] = useState(search)
    return <SpecListPage search={kept} onSearch={setKept} />
  })
  return calls
}

test('a row tells state, phase, progress, score and cost', async () => {
  const spec = specDetail()
  show(({ path }) => (path === '/specs' ? { items: [spec], next: null } : path === '/specs/spec-1' ? spec : undefined))
  const row = (await screen.findByRole('link', { name: 'Event replay' })).closest('tr')
  if (!row) throw new Error('no row')
  expect(await within(row).findByText('$0.42')).toBeTruthy()
  const cells = [...row.cells].map((cell) => cell.textContent)
  expect(cells.slice(0, 6)).toEqual(['waiting', 'Event replayRequirements: waits for you', 'Requirements16 %', '0.86', '$0.42', 'units'])
})

test('filters are asked of the server, and an empty answer offers to clear them', async () => {
  const calls = show(({ path }) => (path === '/specs' ? { items: [], next: null } : undefined), { status: 'failed' })
  expect(await screen.findByText('No spec is like that.')).toBeTruthy()
  await userEvent.selectOptions(await screen.findByLabelText('Project'), 'units')
  expect(await screen.findByText('No spec is like that.')).toBeTruthy()
  const asked = () => calls.filter(({ path }) => path === '/specs').map(({ query }) => query)
  expect(asked().at(-1)).toMatchObject({ project_id: 'prj-1', status: 'failed', archived: 'false' })
  await userEvent.click(screen.getByRole('button', { name: 'Show all specs' }))
  expect(await screen.findByText('No spec yet.')).toBeTruthy()
})

test('an error is shown with its reason and can be tried again', async () => {
  let isDown = true
  show(({ path }) => {
    if (path !== '/specs') return undefined
    return isDown ? refused(503, 'database_busy', 'the database is busy') : { items: [], next: null }
  })
  expect((await screen.findByRole('alert')).textContent).toContain('the database is busy')
  isDown = false
  await userEvent.click(screen.getByRole('button', { name: 'Retry' }))
  expect(await screen.findByText('No spec yet.')).toBeTruthy()
})
