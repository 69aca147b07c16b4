import { screen, waitFor, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { useState } from 'react'
import { expect, test } from 'vitest'
import { Toasts } from '../../app/Toasts'
import { tell } from '../../app/toast'
import { refused, serve, showPage, type Answer } from '../../test/page'
import { specDetail, specSummary } from './fixtures'
import type { SpecListSearch } from './search'
import { SpecListPage } from './SpecListPage'

const projects = { items: [{ id: 'prj-1', name: 'units', archived: false }], next: null }

function show(answer: Answer, search: SpecListSearch = {}) {
  const { asked: calls } = serve((asked) => (asked.path === '/projects' ? projects : answer(asked)))
  showPage(function Shown() {
    const [kept, setKept] = useState(search)
    return (
      <>
        <SpecListPage search={kept} onSearch={setKept} />
        <Toasts />
      </>
    )
  })
  return calls
}

test('a row tells state, phase, score and cost by what the list says, and asks for nothing else', async () => {
  const judged = specSummary()
  const draft = specSummary({ id: 'spec-2', title: 'Vouchers', status: 'draft', current_phase: 'explore', score: null, cost_usd: 0 })
  const calls = show(({ path }) => (path === '/specs' ? { items: [judged, draft], next: null } : undefined))
  const row = (await screen.findByRole('link', { name: 'Event replay' })).closest('tr')
  if (!row) throw new Error('no row')
  await within(row).findByText('units')
  const cells = [...row.cells].map((cell) => cell.textContent)
  expect(cells.slice(0, 6)).toEqual([
    'waiting',
    'Event replayRequirements: waits for youscore 0.86 · $0.42',
    'Requirements',
    '0.86',
    '$0.42',
    'units',
  ])
  const other = screen.getByRole('link', { name: 'Vouchers' }).closest('tr')
  expect([...(other?.cells ?? [])].map((cell) => cell.textContent).slice(2, 5)).toEqual(['Explore', '–', '$0.00'])
  expect(calls.map(({ path }) => path).filter((path) => path.startsWith('/specs'))).toEqual(['/specs'])
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

test('a spec is archived, and Undo brings it back whatever became of it meanwhile', async () => {
  let isAway = false
  const calls = show(({ method, path, body, query }) => {
    if (path === '/specs') return { items: (query.archived === 'true') === isAway ? [specSummary({ archived: isAway })] : [], next: null }
    if (path === '/specs/spec-1/archive') isAway = true
    if (method === 'PATCH') isAway = (body as { archived: boolean }).archived
    return specDetail({ archived: isAway, version: 9 })
  })
  await userEvent.click(await screen.findByRole('button', { name: 'Actions for Event replay' }))
  await userEvent.click(screen.getByRole('menuitem', { name: 'Archive' }))
  expect(await screen.findByText('“Event replay” is archived.')).toBeTruthy()
  expect(await screen.findByText('No spec yet.')).toBeTruthy()
  await userEvent.click(screen.getByRole('button', { name: 'Undo' }))
  expect(await screen.findByRole('link', { name: 'Event replay' })).toBeTruthy()
  expect(calls.filter(({ method }) => method !== 'GET').map(({ method, path, body }) => [method, path, body])).toEqual([
    ['POST', '/specs/spec-1/archive', undefined],
    ['PATCH', '/specs/spec-1', { version: 9, archived: false }],
  ])
  await waitFor(() => expect(screen.queryByRole('button', { name: 'Undo' })).toBeNull())
})

test('those that are archived are shown when they are asked for, and brought back', async () => {
  let isAway = true
  const calls = show(({ method, path, query }) => {
    if (path === '/specs') return { items: (query.archived === 'true') === isAway ? [specSummary({ archived: isAway })] : [], next: null }
    if (method === 'PATCH') isAway = false
    return specDetail({ archived: isAway })
  })
  expect(await screen.findByText('No spec yet.')).toBeTruthy()
  await userEvent.click(screen.getByRole('checkbox', { name: 'Archived' }))
  await userEvent.click(await screen.findByRole('button', { name: 'Actions for Event replay' }))
  await userEvent.click(screen.getByRole('menuitem', { name: 'Bring back' }))
  expect(await screen.findByText('“Event replay” is back.')).toBeTruthy()
  expect(await screen.findByText('No spec is archived.')).toBeTruthy()
  expect(calls.filter(({ path }) => path === '/specs').map(({ query }) => query.archived)).toContain('true')
  tell(undefined)
})

test('what agents work on is not offered to be archived, and a refusal is told on the row', async () => {
  const specs = [specSummary({ status: 'executing' }), specSummary({ id: 'spec-2', title: 'Vouchers' })]
  show(({ method, path }) => {
    if (path === '/specs') return { items: specs, next: null }
    return method === 'POST' ? refused(409, 'spec_running', 'spec spec-2 is executing') : undefined
  })
  await userEvent.click(await screen.findByRole('button', { name: 'Actions for Vouchers' }))
  expect(screen.queryByRole('button', { name: 'Actions for Event replay' })).toBeNull()
  await userEvent.click(screen.getByRole('menuitem', { name: 'Archive' }))
  expect(await screen.findByText(/spec spec-2 is executing/)).toBeTruthy()
  expect(screen.queryByRole('button', { name: 'Undo' })).toBeNull()
})
