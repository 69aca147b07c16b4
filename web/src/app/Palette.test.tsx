import { screen } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { beforeEach, expect, test, vi } from 'vitest'
import { showPage } from '../test/page'
import { usePageActions } from './actions'
import { Palette } from './Palette'

const retry = vi.fn<() => void>()
const theme = vi.fn<() => void>()
const close = vi.fn<() => void>()
let isDown = false

const LISTS: Record<string, object[]> = {
  projects: [{ id: 'prj-1', name: 'Shop' }],
  tasks: [{ id: 'task-1', title: 'Fix the \u202eparser', status: 'failed' }],
  sandboxes: [{ id: 'sbx-1', task_id: 'task-1', status: 'lost' }],
}

function Host() {
  usePageActions([{ label: 'Retry this task', run: retry }])
  return <Palette actions={[{ label: 'Other theme', keys: 'Alt T', run: theme }]} onClose={close} />
}

const show = () => showPage(Host)

beforeEach(() => {
  isDown = false
  for (const mock of [retry, theme, close]) mock.mockClear()
  vi.stubGlobal('fetch', async (request: Request) => {
    if (isDown) throw new TypeError('failed to fetch')
    const [, kind = ''] = /v1\/(\w+)/.exec(request.url) ?? []
    return Response.json({ items: LISTS[kind] ?? [] })
  })
})

const chosen = () => screen.getAllByRole('option').find((option) => option.ariaSelected === 'true')?.textContent

test('goes to what was typed, with the text of others made plain', async () => {
  const history = show()
  await screen.findByRole('option', { name: /Shop/ })
  await userEvent.type(screen.getByRole('combobox'), 'parser task-1')
  expect(chosen()).toBe('Fix the ⟨U+202E⟩parserfailed task-1')
  await userEvent.keyboard('{Enter}')
  expect([history.location.pathname, close.mock.calls.length]).toEqual(['/tasks/task-1', 1])
})

test('acts on the open page, and is walked by arrows', async () => {
  show()
  await screen.findByRole('option', { name: /Retry this task/ })
  expect(chosen()).toBe('Retry this task')
  await userEvent.type(screen.getByRole('combobox'), '{ArrowDown}')
  expect(chosen()).toContain('Home')
  await userEvent.keyboard('{ArrowUp}{Enter}')
  expect([retry.mock.calls.length, close.mock.calls.length]).toEqual([1, 1])
})

test('opens an id that is in no list', async () => {
  const history = show()
  await userEvent.type(await screen.findByRole('combobox'), 'sbx-0199aaaa')
  expect(chosen()).toBe('Open sandbox sbx-0199aaaa')
  await userEvent.keyboard('{Enter}')
  expect(history.location.pathname).toBe('/sandboxes/sbx-0199aaaa')
})

test('says when nothing is called that, and works without the server', async () => {
  isDown = true
  show()
  expect(await screen.findByText(/could not be loaded/)).toBeTruthy()
  await userEvent.type(screen.getByRole('combobox'), 'theme')
  await userEvent.keyboard('{Enter}')
  expect(theme).toHaveBeenCalledOnce()
})
