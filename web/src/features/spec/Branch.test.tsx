import { screen, waitFor, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { expect, test } from 'vitest'
import type { Role, SpecBranch, SpecDetail, SpecItem, SpecMerge } from '../../api/types'
import { refused, serve, showPage, type Answer } from '../../test/page'
import { Branch } from './Branch'
import { specDetail } from './fixtures'

const item = (symbol: string): SpecItem => ({ symbol, task_id: `task-${symbol}`, ticket_id: null, title: `Title ${symbol}`, status: 'completed' })
const merge = (symbol: string, change: Partial<SpecMerge> = {}): SpecMerge => ({
  symbol,
  task_id: `task-${symbol}`,
  commit: `${symbol.slice(-3)}fbca57368c`,
  outcome: 'merged',
  conflicts: [],
  without: [],
  ...change,
})
const branch = (change: Partial<SpecBranch> = {}): SpecBranch => ({
  name: 'spec/replay-1',
  state: 'merged',
  base_commit: 'ba5e0000ffff',
  commit: 'c0ffee11ffff',
  merges: [merge('TSK-002'), merge('TSK-001', { outcome: 'contained' })],
  error: null,
  check_task_id: null,
  check_status: null,
  updated_at: '2026-11-16T09:00:00Z',
  ...change,
})

function show(change: Partial<SpecDetail>, answer: Answer = () => specDetail(), role?: Role) {
  const served = serve(answer)
  showPage(() => <Branch spec={specDetail({ items: [item('TSK-001'), item('TSK-002')], ...change })} />, role)
  return served.changes
}

test('tells its commit, the order of what is merged, and how its checks stand', async () => {
  show({ branch: branch({ check_task_id: 'task-check', check_status: 'running' }) })
  expect(await screen.findByText('all goes together')).toBeTruthy()
  expect(screen.getByRole('button', { name: 'Copy the name spec/replay-1' })).toBeTruthy()
  expect(screen.getByRole('button', { name: 'Copy the commit c0ffee11ffff' }).textContent).toBe('c0ffee11')
  const order = within(screen.getByRole('list', { name: /order in which they are merged/ })).getAllByRole('listitem')
  expect(order.map((one) => one.textContent)).toEqual(['1TSK-002 Title TSK-002merged002fbca5', '2TSK-001 Title TSK-001in already001fbca5'])
  expect(screen.getByRole('link', { name: 'checks' })).toBeTruthy()
  expect(screen.getByText('running')).toBeTruthy()
})

test('names whom a task conflicts with, in which files, and what is left out with it', async () => {
  const conflicts = [{ with: 'TSK-001', files: ['src/a.rs', 'src/b\u202e.rs'] }, { with: null, files: ['README.md'] }]
  const merges = [
    merge('TSK-001'),
    merge('TSK-002', { outcome: 'conflict', conflicts }),
    merge('TSK-003', { outcome: 'left_out', without: ['TSK-002'] }),
    merge('TSK-004', { outcome: 'nothing', commit: null }),
  ]
  show({ branch: branch({ state: 'conflict', merges }) })
  expect(await screen.findByText('not all goes together')).toBeTruthy()
  const pair = screen.getByText('TSK-002 conflicts with TSK-001 in').parentElement
  expect([...(pair?.querySelectorAll('li') ?? [])].map((file) => file.textContent)).toEqual(['src/a.rs', 'src/b⟨U+202E⟩.rs'])
  expect(screen.getByText('TSK-002 conflicts with the default branch in').parentElement?.textContent).toContain('README.md')
  expect(screen.getByText('builds on TSK-002, which is not in')).toBeTruthy()
  expect(screen.getByText('has left nothing')).toBeTruthy()
  expect(screen.getByText('checks run once all goes together')).toBeTruthy()
})

test('is merged on demand before all is done, and a refusal is shown', async () => {
  const changes = show({ branch: null }, () => refused(409, 'nothing_to_merge', 'no task is completed'))
  await userEvent.click(await screen.findByRole('button', { name: 'Merge now' }))
  expect((await screen.findByRole('alert')).textContent).toContain('no task is completed')
  expect(changes.map(({ method, path }) => [method, path])).toEqual([['POST', '/specs/spec-1/branch']])
})

test('is not asked for twice while it is being made, and shows no checks of what was there before', async () => {
  show({ branch: branch({ state: 'wanted', check_task_id: 'task-old', check_status: 'completed' }) })
  expect(await screen.findByText('is being made')).toBeTruthy()
  expect(screen.queryByText('completed')).toBeNull()
  expect(screen.queryByRole('button', { name: /Merge/ })).toBeNull()
})

test('says why it could not be made, and that no check is declared', async () => {
  show({ branch: branch({ state: 'failed', error: 'the mirror is gone' }) })
  expect(await screen.findByText('the mirror is gone')).toBeTruthy()
  expect(screen.getByRole('button', { name: 'Merge again' })).toBeTruthy()
})

test('viewers see it and ask for nothing', async () => {
  show({ branch: branch() }, undefined, 'viewer')
  expect(await screen.findByText('the project declares no checks')).toBeTruthy()
  expect(screen.queryByRole('button', { name: /Merge/ })).toBeNull()
})

test('a spec without tasks has none', async () => {
  show({ items: [], branch: null })
  await waitFor(() => expect(document.body.textContent).toBe(''))
})
