import { screen, waitFor, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { useState } from 'react'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { session } from '../../../api/session'
import type { GraphNode, Overlap, TaskGraph, TaskStatus } from '../../../api/types'
import { liveEvent } from '../../../test/fakes'
import { refused, serve, showPage, type Answer, type Served } from '../../../test/page'
import { GraphPage } from './GraphPage'
import { asGraphSearch, type GraphSearch } from './search'

const NOW = '2026-11-16T09:00:00Z'
const node = (id: string, status: TaskStatus = 'pending'): GraphNode => ({ id, title: `Title ${id}`, status, priority: 'MEDIUM' })
const edge = (depends_on: string, task_id: string) => ({ depends_on, task_id })

let graph: TaskGraph
let overlaps: Overlap[]
let failed: Record<string, unknown>[]
let search: GraphSearch
let answer: Answer
let served: Served

function ownAnswer({ path, query }: Parameters<Answer>[0]): unknown {
  const id = /^\/tasks\/([^/]+)/.exec(path)?.[1]
  const found = graph.nodes.find((one) => one.id === id)
  switch (path) {
    case '/projects':
      return { items: [{ id: 'prj-1', name: 'shop' }, { id: 'prj-2', name: 'other' }], next: null }
    case '/projects/prj-1/graph':
      return query.ticket_id ? { ...graph, nodes: graph.nodes.slice(0, 1), edges: [] } : graph
    case '/projects/prj-2/graph':
      return { ...graph, project_id: 'prj-2', nodes: [], edges: [], groups: [] }
    case '/projects/prj-1/overlaps':
      return { project_id: 'prj-1', items: overlaps }
    case '/sandboxes':
      return { items: query.live ? [{ id: 'sbx-9', task_id: 'c' }] : [], next: null }
    case '/tasks':
      return { items: query.status === 'failed' ? failed : [], next: null }
    case '/tickets/tkt-1':
      return { id: 'tkt-1', project_id: 'prj-1', number: 7, title: 'Refunds' }
    default:
      if (path.endsWith('/dependencies')) return { depends_on: [], blocks: [] }
      if (path.endsWith('/trajectory')) return { events: [] }
      return found && { ...found, project_id: 'prj-1', description: `About ${found.id}`, dependencies: [], unmet_dependencies: 0, retry_count: 0, max_retries: 0, created_at: NOW, updated_at: NOW }
  }
}

function Host() {
  const [now, setNow] = useState(search)
  return <GraphPage search={now} onSearch={(more) => setNow((search = asGraphSearch({ ...search, ...more })))} />
}

function show() {
  served = serve((asked) => answer(asked))
  showPage(Host)
}

const drawing = () => screen.findByRole('group', { name: /as a drawing/ })
const lines = (box: HTMLElement) => [...box.querySelectorAll('[data-edge]')].map((path) => path.getAttribute('data-edge')).toSorted()

beforeEach(() => {
  answer = ownAnswer
  search = {}
  overlaps = []
  failed = []
  graph = {
    project_id: 'prj-1',
    nodes: [node('a', 'completed'), node('b', 'failed'), node('c', 'running'), node('d'), node('e')],
    edges: [edge('a', 'b'), edge('a', 'c'), edge('b', 'd'), edge('c', 'd')],
    groups: [['a', 'e'], ['b', 'c'], ['d']],
    critical_path: ['a', 'b', 'd'],
    critical_path_seconds: 190,
    truncated: false,
  }
})

afterEach(() => session.end())

describe('the graph', () => {
  test('draws tasks with their states, and edges as what is waited for stands', async () => {
    show()
    const box = await drawing()
    expect(within(box).getAllByRole('button')).toHaveLength(5)
    expect(lines(box)).toEqual(['blocked', 'done', 'done', 'waiting'])
    const running = within(box).getByRole('button', { name: /Title c/ })
    expect(running.textContent).toContain('running')
    await waitFor(() => expect(running.textContent).toContain('sbx-9'))
    expect(screen.getByText('5 tasks, 3 steps')).toBeTruthy()
    expect(within(screen.getByRole('list', { name: 'Legend' })).getAllByRole('listitem')).toHaveLength(3)
  })

  test('shows a chosen task beside it, marks what hangs together with it, and lets go on Escape', async () => {
    show()
    await userEvent.click(within(await drawing()).getByRole('button', { name: /Title b/ }))
    expect(search.focus).toBe('b')
    expect(await screen.findByText('About b')).toBeTruthy()
    const marked = within(await drawing()).getAllByRole('button').filter((one) => one.className.includes('bg-accent-soft'))
    expect(marked.map((one) => one.getAttribute('data-node')).toSorted()).toEqual(['a', 'b', 'd'])
    await userEvent.keyboard('{Escape}')
    await waitFor(() => expect(screen.queryByRole('complementary')).toBeNull())
    expect(search.focus).toBeUndefined()
  })

  test('leaves completed tasks out, and shows the critical path, when asked', async () => {
    show()
    const box = await drawing()
    await userEvent.click(screen.getByRole('checkbox', { name: 'Hide completed' }))
    expect(within(box).queryByRole('button', { name: /Title a/ })).toBeNull()
    await userEvent.click(screen.getByRole('checkbox', { name: 'Critical path' }))
    expect(screen.getByText(/critical path has 3 tasks and takes 3 min 10 s/)).toBeTruthy()
    expect(search).toEqual({ hide: true, path: true })
  })

  test('is an indented list on L, with the same to choose from', async () => {
    show()
    await drawing()
    await userEvent.keyboard('l')
    const list = await screen.findByRole('list', { name: 'Tasks and what they wait for' })
    const rows = within(list).getAllByRole('listitem')
    expect(rows.map((row) => [row.getAttribute('aria-level'), row.textContent])).toEqual([
      ['1', 'completedTitle a'],
      ['2', 'failedTitle bwaits for Title a'],
      ['3', 'pendingTitle dwaits for Title b, Title c'],
      ['2', 'runningTitle cwaits for Title a'],
      ['1', 'pendingTitle e'],
    ])
    await userEvent.click(within(list).getByRole('button', { name: /Title e/ }))
    expect(await screen.findByText('About e')).toBeTruthy()
    await userEvent.keyboard('{Escape}l')
    expect(await drawing()).toBeTruthy()
  })

  test('arrow keys go from task to task', async () => {
    show()
    within(await drawing()).getByRole('button', { name: /Title a/ }).focus()
    await userEvent.keyboard('{ArrowRight}')
    await waitFor(() => expect(['b', 'c']).toContain(document.activeElement?.getAttribute('data-node')))
  })

  test('is drawn anew when the stream says that something has changed', async () => {
    show()
    const box = await drawing()
    graph = { ...graph, nodes: graph.nodes.map((one) => (one.id === 'b' ? node('b', 'completed') : one)) }
    served.tell(liveEvent(1, { event_type: 'TASK_COMPLETED', entity_type: 'task', entity_id: 'b', payload: {}, seq: null }))
    await waitFor(() => expect(lines(box)).toEqual(['done', 'done', 'done', 'waiting']), { timeout: 4_000 })
  })

  test('names tasks that wait for each other', async () => {
    graph = { ...graph, nodes: [node('x'), node('y')], edges: [edge('x', 'y'), edge('y', 'x')], groups: [] }
    show()
    expect((await screen.findByRole('alert')).textContent).toContain('Title x, Title y')
  })

  test('tells which tasks under way touch the same files', async () => {
    overlaps = [{ task_id: 'b', title: 'Title b', other_id: 'c', other_title: 'Title c', files: ['src/\u202ea.rs'] }]
    show()
    expect(await screen.findByText('One pair of tasks under way touches the same files')).toBeTruthy()
    expect(screen.getByText('src/⟨U+202E⟩a.rs')).toBeTruthy()
  })

  test('shows the tasks of one ticket', async () => {
    search = { scope: 'ticket', id: 'tkt-1' }
    show()
    expect(within(await drawing()).getAllByRole('button')).toHaveLength(1)
    expect(screen.getByText('ticket #7, Refunds')).toBeTruthy()
  })

  test('says what is missing in an empty project, and goes to another', async () => {
    search = { id: 'prj-2' }
    show()
    expect(await screen.findByText('No task here yet.')).toBeTruthy()
    await userEvent.selectOptions(screen.getByRole('combobox', { name: 'Project' }), 'prj-1')
    expect(await drawing()).toBeTruthy()
    expect(search.id).toBe('prj-1')
  })

  test('says why it cannot be had, and tries again', async () => {
    answer = (asked) => (asked.path.endsWith('/graph') ? refused(500, 'broken', 'broken') : ownAnswer(asked))
    show()
    const alert = await screen.findByRole('alert')
    expect(alert.textContent).toContain('broken')
    answer = ownAnswer
    await userEvent.click(within(alert).getByRole('button', { name: 'Retry' }))
    expect(await drawing()).toBeTruthy()
  })
})

test('a task whose predecessors conflict says so, with whom and where', async () => {
  const error_message =
    "what it builds on does not go together: task-1 and task-2 conflict in made.txt; merge them, push that to the project's repository as omoi/b, and retry the task"
  failed = [{ ...node('b', 'failed'), error_message }, { ...node('x', 'failed'), error_message: 'no turns left' }]
  show()
  const words = 'cannot begin: task-1 and task-2, which it builds on, conflict in made.txt'
  expect(await screen.findByText('One task cannot begin: what it builds on does not go together')).toBeTruthy()
  expect(screen.getByText(words)).toBeTruthy()
  expect((await drawing()).querySelector('[data-node="b"]')?.textContent).toContain(`predecessors conflict: ${words}`)
})
