import { fireEvent, screen, waitFor, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { useState } from 'react'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { session } from '../../../api/session'
import type { Role, Task, Ticket } from '../../../api/types'
import { liveEvent } from '../../../test/fakes'
import { refused, serve, showPage, type Answer, type Served } from '../../../test/page'
import { BoardPage } from './BoardPage'
import type { BoardSearch } from './search'

const NOW = '2026-11-16T09:00:00Z'

function task(id: string, more: Partial<Task> = {}): Task {
  const times = { created_at: NOW, updated_at: NOW }
  const base = { id, title: `Title of ${id}`, description: 'Do it well.', project_id: 'prj-1', status: 'pending', priority: 'MEDIUM' }
  return { ...base, ...times, score: 0, dependencies: [], unmet_dependencies: 0, retry_count: 0, max_retries: 2, ...more } as Task
}

let tasks: Task[]
let tickets: Partial<Ticket>[]
let search: BoardSearch
let answer: Answer
let served: Served

function ownAnswer({ method, path, query, body }: Parameters<Answer>[0]): unknown {
  const one = /^\/tasks\/([^/]+)(?:\/(\w+))?$/.exec(path)
  const found = tasks.find(({ id }) => id === one?.[1])
  if (method !== 'GET' && found) {
    if (one?.[2] === 'retry') change(found.id, { status: 'pending' })
    if (one?.[2] === 'cancel') change(found.id, { status: 'cancelled' })
    if (method === 'PATCH') change(found.id, body as Partial<Task>)
    return tasks.find(({ id }) => id === found.id)
  }
  switch (path) {
    case '/tasks': {
      const [status, limit, from] = [query.status, Number(query.limit), Number(query.cursor ?? 0)]
      const fitting = tasks.filter((one_) => status === undefined || one_.status === status)
      const next = from + limit < fitting.length ? String(from + limit) : null
      return { items: fitting.slice(from, from + limit), next }
    }
    case '/projects':
      return { items: [{ id: 'prj-1', name: 'shop' }], next: null }
    case '/tickets':
      return { items: tickets, next: null }
    case '/sandboxes':
      return { items: [], next: null }
    default:
      if (one?.[2] === 'dependencies') return { depends_on: [], blocks: [] }
      if (path.endsWith('/trajectory')) return { events: [{ event_type: 'agent.tool_use', event_data: { tool: 'Bash', input: { command: 'make all' } }, created_at: NOW }] }
      return found && !one?.[2] ? { ...found, waiting_for: { reason: 'not_autonomous', text: 'somebody has to start it' } } : undefined
  }
}

function change(id: string, more: Partial<Task>) {
  tasks = tasks.map((one) => (one.id === id ? { ...one, ...more, updated_at: '2026-11-16T09:01:00Z' } : one))
}

function Host() {
  const [now, setNow] = useState(search)
  return <BoardPage search={now} onSearch={(more) => setNow((search = { ...search, ...more }))} />
}

function show(role?: Role) {
  served = serve((asked) => answer(asked))
  showPage(Host, role)
}

const column = (name: string) => screen.findByRole('region', { name })
const card = async (title: string) => {
  const link = await screen.findByRole('link', { name: title })
  const found = link.closest<HTMLElement>('[data-task]')
  if (!found) throw new Error(`${title} is on no card`)
  return found
}

beforeEach(() => {
  answer = ownAnswer
  search = {}
  tickets = [{ id: 'tkt-1', number: 7, title: 'Refunds' }]
  tasks = [
    task('task-a', { ticket_id: 'tkt-1' }),
    task('task-b', { dependencies: ['task-r'], unmet_dependencies: 1, priority: 'CRITICAL' }),
    task('task-r', { status: 'running', sandbox_id: 'sbx-1', branch_name: 'feature/\u202ex', started_at: NOW }),
    task('task-d', { status: 'completed', completed_at: NOW, result: { verification: 'verified' } }),
    task('task-f', { status: 'failed', completed_at: NOW, error_message: 'no turns left' }),
    task('task-c', { status: 'cancelled', completed_at: NOW }),
  ]
})

afterEach(() => session.end())

describe('the board', () => {
  test('shows each task in the column of its state, with what it does or waits for', async () => {
    show()
    const pending = await column('pending')
    expect((await within(pending).findAllByRole('link', { name: /Title/ })).map((link) => link.textContent)).toEqual([
      'Title of task-b',
      'Title of task-a',
    ])
    expect(within(pending).getByText('blocked by Title of task-r')).toBeTruthy()
    expect(await within(pending).findByText('somebody has to start it')).toBeTruthy()
    expect(within(pending).getByText('#7')).toBeTruthy()
    expect(await within(await column('running')).findByText('Bash make all')).toBeTruthy()
    expect(screen.getByText('feature/⟨U+202E⟩x')).toBeTruthy()
    expect(within(await column('completed')).getByText('verified')).toBeTruthy()
    expect(within(await column('failed')).getByText('no turns left')).toBeTruthy()
    expect(within(await column('assigned')).getByText('Nothing is about to begin.')).toBeTruthy()
    expect(screen.queryByRole('region', { name: 'cancelled' })).toBeNull()
  })

  test('shows cancelled tasks when they are asked for', async () => {
    show()
    await userEvent.click(await screen.findByRole('checkbox', { name: 'Cancelled' }))
    expect(await within(await column('cancelled')).findByRole('link', { name: 'Title of task-c' })).toBeTruthy()
    expect(search.cancelled).toBe(true)
  })

  test('moves a card when the stream says that its task is another', async () => {
    show()
    await card('Title of task-a')
    await waitFor(() => expect(served.asked.some(({ path }) => path === '/tasks/task-a')).toBe(true))
    change('task-a', { status: 'running', sandbox_id: 'sbx-2', started_at: NOW })
    served.tell(liveEvent(1, { event_type: 'TASK_STARTED', entity_type: 'task', entity_id: 'task-a', payload: {}, seq: null }))
    expect(await within(await column('running')).findByRole('link', { name: 'Title of task-a' })).toBeTruthy()
    expect(within(await column('pending')).queryByRole('link', { name: 'Title of task-a' })).toBeNull()
  })

  test('keeps only what fits, and never hides what waits for a person', async () => {
    search = { q: 'task-a' }
    show()
    expect(await card('Title of task-a')).toBeTruthy()
    expect(screen.queryByRole('link', { name: 'Title of task-b' })).toBeNull()
    expect(await screen.findByText(/One task that waits for you does not fit the filter/)).toBeTruthy()
    await userEvent.click(screen.getByRole('button', { name: 'Clear the filter' }))
    expect(await card('Title of task-b')).toBeTruthy()
    expect(search.q).toBeUndefined()
  })

  test('shows the tasks of one ticket, and leads to its graph', async () => {
    show()
    await userEvent.click(within(await card('Title of task-a')).getByRole('button', { name: '#7' }))
    expect(search.ticket).toBe('tkt-1')
    await waitFor(() => expect(served.asked.some(({ query }) => query.ticket_id === 'tkt-1')).toBe(true))
    expect((await screen.findByRole('link', { name: 'Its graph' })).getAttribute('href')).toBe('/graph?scope=ticket&id=tkt-1')
  })

  test('looks for what is typed', async () => {
    show()
    await card('Title of task-a')
    await userEvent.type(screen.getByRole('searchbox', { name: 'Find tasks' }), 'task-d')
    await waitFor(() => expect(search.q).toBe('task-d'))
    await waitFor(() => expect(screen.queryByRole('link', { name: 'Title of task-a' })).toBeNull())
  })

  test('loads more of a long column as its end comes near', async () => {
    tasks = Array.from({ length: 60 }, (_, n) => task(`task-${n}`, { status: 'completed', completed_at: NOW }))
    show()
    const completed = await column('completed')
    expect(await within(completed).findByText('50+')).toBeTruthy()
    const box = completed.querySelector('[class*=overflow-y-auto]')
    if (!box) throw new Error('nothing scrolls')
    box.scrollTop = 50 * 36
    fireEvent.scroll(box)
    expect(await within(completed).findByText('60')).toBeTruthy()
    expect(within(completed).getAllByRole('listitem').length).toBeLessThan(45)
  })

  test('searches so many of a column and says that there are more', async () => {
    tasks = Array.from({ length: 2_100 }, (_, n) => task(`task-${n}`, { status: 'completed', completed_at: NOW }))
    search = { q: 'task-1999' }
    show()
    const completed = await column('completed')
    expect(await within(completed).findByRole('link', { name: 'Title of task-1999' })).toBeTruthy()
    expect(await within(completed).findByText('The newest 2000 were searched; there are more.')).toBeTruthy()
    expect(Math.max(...served.asked.map(({ query }) => Number(query.cursor ?? 0)))).toBe(1_500)
  })

  test('leads to where an agent that asks can be answered', async () => {
    answer = (asked) =>
      asked.path.endsWith('/trajectory')
        ? { events: [{ event_type: 'agent.waiting', event_data: { message: 'keep it?' }, created_at: NOW }] }
        : ownAnswer(asked)
    show()
    const running = await card('Title of task-r')
    expect(await within(running).findByText('asks: keep it?')).toBeTruthy()
    expect(within(running).getByRole('link', { name: 'Answer' }).getAttribute('href')).toBe('/sandboxes/sbx-1')
  })

  test('says so when a column cannot be had, and the others go on', async () => {
    answer = (asked) => (asked.query.status === 'failed' ? refused(500, 'broken', 'broken') : ownAnswer(asked))
    show()
    expect(await within(await column('failed')).findByRole('alert')).toBeTruthy()
    expect(await card('Title of task-a')).toBeTruthy()
  })

  test('says what will be here while there is nothing', async () => {
    tasks = []
    show()
    expect(await screen.findByText('No task yet.')).toBeTruthy()
    expect(screen.getByRole('link', { name: 'Start the first one' })).toBeTruthy()
  })
})

describe('moving a card', () => {
  test('by its menu: a failed task is retried, and stands where the server says', async () => {
    show()
    const failed = await card('Title of task-f')
    await userEvent.click(within(failed).getByRole('button', { name: 'Actions for Title of task-f' }))
    const menu = screen.getByRole('menu')
    expect(within(menu).getAllByRole('menuitem').map((item) => item.textContent)).toEqual(['Retry', 'Priority critical', 'Priority high', 'Priority low'])
    await userEvent.keyboard('{Enter}')
    expect(await within(await column('pending')).findByRole('link', { name: 'Title of task-f' })).toBeTruthy()
    expect(served.changes.map(({ path }) => path)).toEqual(['/tasks/task-f/retry'])
    expect(screen.queryByRole('menu')).toBeNull()
  })

  test('by keys: priority, and cancelling what runs only after it was asked', async () => {
    show()
    within(await card('Title of task-a')).getByRole('link', { name: 'Title of task-a' }).focus()
    await userEvent.keyboard('+')
    await waitFor(() => expect(served.changes[0]).toMatchObject({ method: 'PATCH', path: '/tasks/task-a', body: { priority: 'HIGH' } }))
    within(await card('Title of task-r')).getByRole('link', { name: 'Title of task-r' }).focus()
    await userEvent.keyboard('{Delete}')
    const dialog = await screen.findByRole('dialog', { name: 'Cancel this task?' })
    expect(served.changes).toHaveLength(1)
    await userEvent.click(within(dialog).getByRole('button', { name: 'Cancel the task' }))
    await waitFor(() => expect(served.changes[1]?.path).toBe('/tasks/task-r/cancel'))
    await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull())
  })

  test('by dragging, into columns that the rules allow and no other', async () => {
    show()
    const failed = await card('Title of task-f')
    const data = { setData: () => undefined, effectAllowed: '' }
    fireEvent.dragStart(failed, { dataTransfer: data })
    expect(fireEvent.dragOver(await column('running'))).toBe(true)
    expect(fireEvent.dragOver(await column('pending'))).toBe(false)
    fireEvent.drop(await column('running'))
    expect(served.changes).toEqual([])
    fireEvent.drop(await column('pending'))
    await waitFor(() => expect(served.changes[0]?.path).toBe('/tasks/task-f/retry'))
  })

  test('by dragging onto another that waits, which lends it its priority', async () => {
    show()
    fireEvent.dragStart(await card('Title of task-a'), { dataTransfer: { setData: () => undefined, effectAllowed: '' } })
    fireEvent.drop(await card('Title of task-b'))
    await waitFor(() => expect(served.changes[0]?.body).toEqual({ priority: 'CRITICAL' }))
  })

  test('is refused with the server’s words', async () => {
    answer = (asked) => (asked.path.endsWith('/retry') ? refused(409, 'task_not_over', 'task_not_over') : ownAnswer(asked))
    show()
    within(await card('Title of task-f')).getByRole('link', { name: 'Title of task-f' }).focus()
    await userEvent.keyboard('r')
    expect((await screen.findByRole('alert')).textContent).toContain('task_not_over')
  })

  test('is not for those who may only look', async () => {
    show('viewer')
    const failed = await card('Title of task-f')
    expect(within(failed).queryByRole('button')).toBeNull()
    expect(failed.getAttribute('draggable')).toBeNull()
  })
})

describe('the focus', () => {
  test('goes from card to card, and a click opens the drawer, which Escape closes', async () => {
    show()
    await card('Title of task-a')
    await userEvent.keyboard('j')
    expect(document.activeElement?.textContent).toBe('Title of task-b')
    await userEvent.keyboard('j')
    expect(document.activeElement?.textContent).toBe('Title of task-a')
    await userEvent.keyboard('{ArrowRight}')
    expect(document.activeElement?.textContent).toBe('Title of task-r')
    await userEvent.click(screen.getByRole('link', { name: 'Title of task-a' }))
    const drawer = await screen.findByRole('complementary', { name: 'Title of task-a' })
    expect(await within(drawer).findByText('Do it well.')).toBeTruthy()
    expect(search.task).toBe('task-a')
    await userEvent.keyboard('{Escape}')
    await waitFor(() => expect(screen.queryByRole('complementary')).toBeNull())
  })
})

describe('the list', () => {
  test('looks further back for what is not among the newest', async () => {
    tasks = Array.from({ length: 501 }, (_, n) => task(`task-${n}`))
    search = { view: 'list', q: 'task-500' }
    show()
    expect(await screen.findByText('None of the newest 500 tasks fits the filter.')).toBeTruthy()
    await userEvent.click(screen.getByRole('button', { name: 'Look further back' }))
    expect(await screen.findByRole('link', { name: 'Title of task-500' })).toBeTruthy()
  })

  test('has all tasks in a table, with the same filters and menu', async () => {
    search = { view: 'list' }
    show()
    const table = await screen.findByRole('table')
    expect(within(table).getAllByRole('row')).toHaveLength(7)
    expect(within(table).getByText('blocked by Title of task-r')).toBeTruthy()
    await userEvent.selectOptions(screen.getByRole('combobox', { name: 'State' }), 'failed')
    await waitFor(() => expect(within(screen.getByRole('table')).getAllByRole('row')).toHaveLength(2))
    await userEvent.click(screen.getByRole('button', { name: 'Actions for Title of task-f' }))
    await userEvent.click(screen.getByRole('menuitem', { name: 'Retry' }))
    expect(await screen.findByText('No task fits the filter.')).toBeTruthy()
    await userEvent.click(screen.getByRole('button', { name: 'Show all tasks' }))
    await waitFor(() => expect(within(screen.getByRole('table')).getAllByRole('row')).toHaveLength(7))
  })
})
