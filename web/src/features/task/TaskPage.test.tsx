import { screen, waitFor, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { useState } from 'react'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { session } from '../../api/session'
import type { Role } from '../../api/types'
import { storedEvent } from '../../test/fakes'
import { refused, serve, showPage, type Asked } from '../../test/page'
import type { TaskSearch } from './search'
import { TaskPage } from './TaskPage'

const DIFF = 'diff --git a/a.rs b/a.rs\n--- a/a.rs\n+++ b/a.rs\n@@ -1 +1 @@\n-before\n+after\n'

let task: Record<string, unknown>
let evidence: Record<string, unknown>
let before: Record<string, unknown>
let attempts: Record<string, unknown>[]
let search: TaskSearch
let asked: Asked[]

function answer({ method, path, query }: Asked): unknown {
  if (method === 'PATCH') return task
  switch (path) {
    case '/tasks/task-1':
      return task
    case '/tasks/task-a':
    case '/tasks/task-b':
      return before[path.slice(-1)]
    case '/tasks/task-1/evidence':
      return evidence
    case '/tasks/task-1/dependencies':
      return { task_id: 'task-1', depends_on: [], blocks: [], all_completed: true }
    case '/sandboxes':
      return { items: attempts }
    case '/sandboxes/sbx-2/events':
    case '/sandboxes/sbx-1/events':
      return { events: [edit(path.includes('sbx-2') ? 'b.rs' : 'a.rs')], query }
    case '/audit':
      return query.entity_id === 'task-1' ? { items: [{ n: 4, at: '2026-11-16T09:00:00Z', actor: 'eve', action: 'task.create', detail: {} }] } : undefined
    default:
      return undefined
  }
}

function edit(path: string) {
  const data = { file_path: path, change_type: 'modified', lines_added: 1, lines_removed: 1, full_diff: DIFF }
  return storedEvent(2, { event_type: 'agent.file_edited', event_data: data })
}

function Host() {
  const [now, setNow] = useState(search)
  const onSearch = (change: TaskSearch) => {
    search = { ...search, ...change }
    setNow(search)
  }
  return <TaskPage id="task-1" search={now} onSearch={onSearch} onStarted={() => undefined} />
}

const show = (role?: Role) => showPage(Host, role)

beforeEach(() => {
  search = {}
  before = {}
  task = {
    id: 'task-1',
    project_id: 'prj-1',
    title: 'Fix the parser',
    description: 'd',
    status: 'pending',
    stage: 'work',
    priority: 'LOW',
    retry_count: 0,
    max_retries: 3,
    unmet_dependencies: 0,
    created_at: '2026-11-16T09:00:00Z',
    updated_at: '2026-11-16T09:00:00Z',
  }
  evidence = { task_id: 'task-1', status: 'completed', stage: 'work', verification: 'unverified', checks: [], attempts: [] }
  const common = { task_id: 'task-1', provider: 'local', created_at: '2026-11-16T09:01:00Z' }
  attempts = [
    { ...common, id: 'sbx-3', stage: 'check', status: 'completed' },
    { ...common, id: 'sbx-2', stage: 'work', status: 'completed' },
    { ...common, id: 'sbx-1', stage: 'work', status: 'failed', ended_at: '2026-11-16T09:02:00Z', end_reason: 'checks_failed' },
  ]
  asked = serve(answer).asked
})

afterEach(() => session.end())

describe('the page of a task', () => {
  test('keeps its tab in the address, by click and by key', async () => {
    show()
    await userEvent.click(await screen.findByRole('tab', { name: 'Proof' }))
    expect(search.tab).toBe('proof')
    screen.getByRole('tab', { name: 'Proof' }).blur()
    await userEvent.keyboard('5')
    expect(search.tab).toBe('history')
  })

  test('says in words why it has not started, and in which stage it is', async () => {
    task.waiting_for = { reason: 'project_limit', text: 'its project has as many sandboxes as it may' }
    task.stage = 'check'
    show()
    expect(await screen.findByText('Not started yet: its project has as many sandboxes as it may.')).toBeTruthy()
    expect(screen.getByText('stage: checks, its commit is to be proven')).toBeTruthy()
  })

  test('changes its priority', async () => {
    show()
    await userEvent.selectOptions(await screen.findByLabelText('priority'), 'high')
    await waitFor(() => expect(asked.find(({ method }) => method === 'PATCH')).toMatchObject({ path: '/tasks/task-1', body: { priority: 'HIGH' } }))
  })

  test('lets nobody change the priority who may only look', async () => {
    show('viewer')
    expect(await screen.findByText('priority low')).toBeTruthy()
    expect(screen.queryByLabelText('priority')).toBeNull()
  })

  test('says that there is no such task', async () => {
    serve(() => refused(404, 'task_not_found', 'no'))
    show()
    expect(await screen.findByText('There is no task task-1.')).toBeTruthy()
  })
})

describe('its proof', () => {
  beforeEach(() => {
    search = { tab: 'proof' }
  })

  test('shows each check with its exit code, time, output and commit', async () => {
    evidence = {
      ...evidence,
      verification: 'verified',
      commit: '0123456789abcdef',
      checks: [
        { name: 'unit', command: 'make test', passed: true, exit_code: 0, duration_ms: 4200, output_preview: '\u001b[32mok\u001b[0m 12' },
        { name: 'slow', command: 'make slow', passed: false, exit_code: null, output_preview: '' },
      ],
    }
    show()
    const [unit, slow] = within(await screen.findByRole('list', { name: 'Checks' })).getAllByRole('listitem')
    expect(unit?.textContent).toContain('passedunit$ make testexit 0 · 4.2 s')
    expect(unit?.textContent).toContain('ok 12')
    expect(slow?.textContent).toContain('failedslow$ make slowended by a signal or its time limit')
    expect(screen.getByText(/^verified: its checks passed/)).toBeTruthy()
    expect(screen.getByText('0123456789ab')).toBeTruthy()
    expect(screen.getByText('1 of 2 checks passed')).toBeTruthy()
  })

  test('says that nothing proves it where no check ran', async () => {
    show()
    expect(await screen.findByText('No check has run.')).toBeTruthy()
    expect(screen.getByText(/^unverified: the agent says so/)).toBeTruthy()
  })

  test('claims nothing while it is worked on', async () => {
    evidence = { ...evidence, status: 'running' }
    show()
    expect(await screen.findByText('Nothing is proven while it is worked on.')).toBeTruthy()
  })
})

test('shows what the last attempt at work changed, or another one', async () => {
  search = { tab: 'changes' }
  show()
  expect(await screen.findByRole('button', { name: /^b\.rs/ })).toBeTruthy()
  expect(screen.getByText(/after/)).toBeTruthy()
  await userEvent.selectOptions(screen.getByLabelText('Attempt'), 'sbx-1')
  expect(await screen.findByRole('button', { name: /^a\.rs/ })).toBeTruthy()
  expect(search.attempt).toBe('sbx-1')
  expect(asked.filter(({ path }) => path.endsWith('/events')).map(({ query }) => query.event_type)).toEqual(['agent.file_edited', 'agent.file_edited'])
})

describe('its history', () => {
  beforeEach(() => {
    search = { tab: 'history' }
  })

  test('names who did it to those who may read the audit trail', async () => {
    show('admin')
    expect(await screen.findByText('eve')).toBeTruthy()
    expect(screen.getByText('sandbox ended: failed')).toBeTruthy()
  })

  test('tells others where that stands, and does not ask for it', async () => {
    show('operator')
    expect(await screen.findByText(/takes the role admin to read/)).toBeTruthy()
    expect(asked.some(({ path }) => path === '/audit')).toBe(false)
  })
})

describe('predecessors that conflict', () => {
  const reason =
    "what it builds on does not go together: task-a on omoi/a and task-b conflict in made.txt, b.txt; merge them, push that to the project's repository as omoi/both, and retry the task"

  test('are named by the task that builds on them, with the files and what to do', async () => {
    task = { ...task, status: 'failed', failure_kind: 'invalid', error_message: reason }
    before = { a: { ...task, id: 'task-a', title: 'Parser', status: 'completed' } }
    show()
    const pair = within(await screen.findByRole('list', { name: 'Tasks that conflict' }))
    expect(await pair.findByRole('link', { name: 'Parser' })).toBeTruthy()
    expect(pair.getByRole('link', { name: 'task-b' })).toBeTruthy()
    expect(pair.getByText('omoi/a')).toBeTruthy()
    expect(screen.getByText('made.txt, b.txt')).toBeTruthy()
    expect(screen.getByRole('button', { name: 'Copy the name omoi/both' })).toBeTruthy()
    expect(screen.getByRole('button', { name: 'Retry' })).toBeTruthy()
  })

  test('are told by a task that waits for that one', async () => {
    task = { ...task, dependencies: ['task-a', 'task-b'], unmet_dependencies: 1 }
    before = {
      a: { ...task, id: 'task-a', title: 'Both', status: 'failed', error_message: reason },
      b: { ...task, id: 'task-b', title: 'Store', status: 'completed' },
    }
    show()
    expect(await screen.findByRole('link', { name: 'Both' })).toBeTruthy()
    expect(screen.getByText('cannot begin: what it builds on conflicts in made.txt, b.txt.')).toBeTruthy()
    expect(screen.queryByText('Store')).toBeNull()
  })
})
