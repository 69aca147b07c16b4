import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from '@tanstack/react-router'
import { render, screen, waitFor, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { useState } from 'react'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { session } from '../../api/session'
import type { Role, StoredEvent } from '../../api/types'
import { storedEvent } from '../../test/fakes'
import { SandboxPage } from './SandboxPage'
import type { SandboxSearch } from './search'

const DIFF = 'diff --git a/a.rs b/a.rs\n--- a/a.rs\n+++ b/a.rs\n@@ -1 +1 @@\n-before\n+after, whole\n'

let stored: StoredEvent[]
let earlier: StoredEvent[]
let posted: [string, unknown][]
let search: SandboxSearch
let sandbox: Record<string, unknown>

let held: Record<string, unknown>
let attempts: object[]

const task = { id: 'task-1', project_id: 'prj-1', sandbox_id: 'sbx-1', title: 'Add replay', status: 'running', description: 'd', retry_count: 0, max_retries: 0, execution_config: { max_total_cost_usd: 2 } }

async function answer(input: Request | string): Promise<Response> {
  const url = new URL(typeof input === 'string' ? input : input.url, 'http://localhost')
  const path = url.pathname.replace('/api/v1', '')
  if (input instanceof Request && input.method === 'POST') {
    posted.push([path, await input.json().catch(() => undefined)])
    return Response.json({ ...sandbox, message_id: 'msg-1' })
  }
  switch (path) {
    case '/sandboxes/sbx-1':
      return Response.json(sandbox)
    case '/sandboxes/sbx-1/task':
      return Response.json(held)
    case '/sandboxes/sbx-1/events':
      return Response.json({ events: (url.searchParams.has('before') ? earlier : stored).toReversed() })
    case '/sandboxes/sbx-1/messages':
      return Response.json([])
    case '/sandboxes/sbx-1/diffs/evt-20':
      return Response.json({ event_id: 'evt-20', sandbox_id: 'sbx-1', file_path: 'a.rs', full_diff: DIFF })
    case '/tasks/task-1/evidence':
      return Response.json({ attempts })
    case '/costs':
      return Response.json({ items: [], totals: { calls: 2, input_tokens: 400, output_tokens: 90, cache_read_tokens: 2_000, cache_write_tokens: 0, cost_usd: 0.42 } })
    case '/stream':
      return new Response(new ReadableStream())
    default:
      return Response.json({ status: 404, code: 'not_found', detail: path }, { status: 404 })
  }
}

function Host() {
  const [now, setNow] = useState(search)
  return <SandboxPage id="sbx-1" search={now} onSearch={(change) => setNow(go(change))} />
}

function go(change: SandboxSearch): SandboxSearch {
  search = { ...search, ...change }
  return search
}

function show(role: Role = 'operator') {
  session.begin({ name: 'ada', role })
  const router = createRouter({ routeTree: createRootRoute({ component: Host }), history: createMemoryHistory() })
  render(
    <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
      {/* oxlint-disable-next-line typescript/no-explicit-any -- a router of its own, with none of the page's routes */}
      <RouterProvider router={router as any} />
    </QueryClientProvider>,
  )
}

beforeEach(() => {
  search = {}
  posted = []
  earlier = []
  held = task
  sandbox = {
    id: 'sbx-1',
    task_id: 'task-1',
    status: 'running',
    provider: 'local',
    branch_name: 'feature/\u202eevil',
    created_at: '2026-11-16T09:00:00Z',
    last_heartbeat_at: new Date().toISOString(),
    isolation: { level: 'full', layers: [{ layer: 'seccomp', status: 'yes', detail: 'deny-list' }] },
    labels: {},
  }
  const edit = { file_path: 'a.rs', change_type: 'modified', lines_added: 1, lines_removed: 1, diff_preview: '@@ -1 +1 @@\n-before', full_diff_available: true }
  stored = [
    storedEvent(1),
    storedEvent(2, { event_type: 'agent.file_edited', event_data: edit }),
    storedEvent(3, { event_type: 'agent.tool_use', event_data: { tool: 'Bash', tool_use_id: 't', input: { command: 'make all' }, turn: 7 } }),
    storedEvent(4, { event_type: 'command.output', event_data: { command_id: 't', text: 'compiling' } }),
  ]
  vi.stubGlobal('fetch', answer)
})

afterEach(() => session.end())

describe('the page of a sandbox', () => {
  test('says how it stands', async () => {
    show()
    expect(await screen.findByRole('heading', { name: 'Add replay' })).toBeTruthy()
    expect(await screen.findByText('2.4k in · 90 out')).toBeTruthy()
    expect(screen.getByText('$0.42 of $2.00')).toBeTruthy()
    expect(screen.getByText('full (local)')).toBeTruthy()
    expect(screen.getByText('feature/⟨U+202E⟩evil')).toBeTruthy()
    expect(await screen.findByText('7')).toBeTruthy()
  })

  test('shows every command in the terminal', async () => {
    show()
    const terminal = await screen.findByRole('region', { name: 'Terminal, read-only' })
    expect(within(terminal).getByRole('button', { name: /make all/ })).toBeTruthy()
    expect(within(terminal).getByText('compiling')).toBeTruthy()
  })

  test('fetches the whole diff of a file when it is opened, and keeps it in the address', async () => {
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'Open diff' }))
    expect(await screen.findByText(/after, whole/)).toBeTruthy()
    expect(search).toEqual({ tab: 'files', file: 'a.rs', event: 2 })
  })

  test('shows one kind of events, and all again', async () => {
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'Messages' }))
    expect(screen.getAllByRole('listitem')).toHaveLength(1)
    expect(search.kinds).toBe('messages')
    await userEvent.click(screen.getByRole('button', { name: 'All' }))
    expect(screen.getAllByRole('listitem')).toHaveLength(3)
  })

  test('goes back to an earlier moment', async () => {
    search = { at: 3 }
    show()
    const back = await screen.findByRole('button', { name: 'One event back' })
    await waitFor(() => expect(screen.getAllByText(/make all/)).toHaveLength(2))
    await userEvent.click(back)
    expect(search.at).toBe(2)
    expect(screen.queryByText(/make all/)).toBeNull()
    await userEvent.click(screen.getByRole('button', { name: 'Back to the end' }))
    expect(search.at).toBeUndefined()
    expect(screen.getAllByText(/make all/)).toHaveLength(2)
  })

  test('loads what a link points at, however far back it is', async () => {
    earlier = [storedEvent(1), storedEvent(2)]
    stored = [storedEvent(3), storedEvent(4)]
    search = { at: 1 }
    show()
    expect(await screen.findByText('event 1')).toBeTruthy()
    expect(screen.queryByText('event 2')).toBeNull()
  })

  test('stops the sandbox after it has said what is kept', async () => {
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'Stop' }))
    const dialog = screen.getByRole('dialog', { name: 'Stop this sandbox?' })
    expect(dialog.textContent).toContain('Its work is kept first')
    expect(posted).toEqual([])
    await userEvent.click(within(dialog).getByRole('button', { name: 'Stop' }))
    await waitFor(() => expect(posted).toEqual([['/sandboxes/sbx-1/terminate', { reason: 'stopped from its page' }]]))
    await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull())
  })

  test('interrupts only when that is confirmed', async () => {
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'Interrupt' }))
    await userEvent.click(within(screen.getByRole('dialog')).getByRole('button', { name: 'Go back' }))
    expect([posted, screen.queryByRole('dialog')]).toEqual([[], null])
    await userEvent.click(screen.getByRole('button', { name: 'Interrupt' }))
    await userEvent.click(within(screen.getByRole('dialog')).getByRole('button', { name: 'Interrupt' }))
    await waitFor(() => expect(posted).toEqual([['/sandboxes/sbx-1/messages', { content: 'Interrupted by ada.', message_type: 'interrupt' }]]))
  })

  test('offers nothing to one who may only look', async () => {
    show('viewer')
    expect(await screen.findByText(/may look, but not speak/)).toBeTruthy()
    expect(screen.queryByRole('button', { name: 'Stop' })).toBeNull()
  })

  test('obeys its keys', async () => {
    show()
    await screen.findByRole('region', { name: 'Terminal, read-only' })
    await userEvent.keyboard('2')
    expect(search.tab).toBe('files')
    await userEvent.keyboard('k')
    expect(search.event).toBe(3)
    await userEvent.keyboard('k')
    expect(search.event).toBe(2)
    await userEvent.keyboard('m')
    expect(document.activeElement).toBe(screen.getByLabelText('To the agent'))
    await userEvent.keyboard('i')
    expect(screen.queryByRole('dialog')).toBeNull()
    screen.getByLabelText('To the agent').blur()
    await userEvent.keyboard('i')
    expect(screen.getByRole('dialog', { name: 'Interrupt the agent?' })).toBeTruthy()
  })

  test('copies the command that shows the same in a terminal', async () => {
    show()
    const user = userEvent.setup()
    await user.click(await screen.findByRole('button', { name: 'More actions' }))
    await user.click(screen.getByRole('menuitem', { name: 'Copy the CLI command' }))
    expect(await navigator.clipboard.readText()).toBe('omoi sandbox events sbx-1 --follow')
  })

  test('says that there is no transcript where there is none', async () => {
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'More actions' }))
    await userEvent.click(screen.getByRole('menuitem', { name: 'Download the transcript' }))
    expect((await screen.findByRole('alert')).textContent).toContain('has no transcript')
  })

  test('warns of a budget that is nearly or wholly used up', async () => {
    const config = { max_total_cost_usd: 0.5, budget_usd: 0.42 }
    held = { ...task, execution_config: config, cost_usd: 0.42 }
    show()
    expect(await screen.findByText('$0.42 of $0.50, nearly used up')).toBeTruthy()
    expect(screen.getByText('$0.42 of $0.42, used up')).toBeTruthy()
  })

  test('offers to try a task again that failed', async () => {
    held = { ...task, status: 'failed' }
    sandbox = { ...sandbox, status: 'failed', ended_at: '2026-11-16T09:05:00Z' }
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'More actions' }))
    await userEvent.click(await screen.findByRole('menuitem', { name: 'Retry the task' }))
    await waitFor(() => expect(posted.map(([path]) => path)).toEqual(['/tasks/task-1/retry', '/projects/prj-1/sandboxes']))
  })

  test.each([
    ['failed', 'checks_failed', 'Its work was done, but its checks failed'],
    ['completed', 'task_completed', 'Completed, and its checks passed'],
    ['running', null, 'Its work was done, unverified: no check of it has ended'],
  ])('does not call work complete that is not: its check %s', async (status, end_reason, words) => {
    sandbox = { ...sandbox, status: 'completed', ended_at: '2026-11-16T09:05:00Z', end_reason: 'work_completed' }
    held = { ...task, sandbox_id: 'sbx-2' }
    attempts = [
      { sandbox_id: 'sbx-1', stage: 'work', status: 'completed', end_reason: 'work_completed' },
      { sandbox_id: 'sbx-2', stage: 'check', status, end_reason },
    ]
    show()
    expect(await screen.findByText(words)).toBeTruthy()
    expect(screen.getByRole('link', { name: 'Its checks' })).toBeTruthy()
  })

  test('lets a person decide about work that could not be kept, and names the loss', async () => {
    const rescue = { tries: 8, error: 'the push is refused', next_at: null, disk_bytes: 5 << 20 }
    sandbox = { ...sandbox, status: 'failed', place: 'unkept', base_commit: '0123456789abcdef', ended_at: '2026-11-16T09:05:00Z', kept: null, rescue }
    show()
    expect(await screen.findByText(/nothing is deleted until you decide: the push is refused/)).toBeTruthy()
    await userEvent.click(screen.getByRole('button', { name: 'Keep it' }))
    await userEvent.click(within(screen.getByRole('dialog')).getByRole('button', { name: 'Keep it' }))
    await waitFor(() => expect(posted.map(([path]) => path)).toEqual(['/sandboxes/sbx-1/rescue']))
    await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull())
    await userEvent.click(screen.getByRole('button', { name: 'Discard' }))
    const dialog = screen.getByRole('dialog')
    for (const named of [/evil/, /0123456789ab/, /the push is refused/, /5/]) expect(dialog.textContent).toMatch(named)
    await userEvent.click(within(dialog).getByRole('button', { name: 'Discard' }))
    await waitFor(() => expect(posted.at(-1)?.[0]).toBe('/sandboxes/sbx-1/discard'))
  })

  test('names what was left out of work that is kept in part, and loses nothing else', async () => {
    sandbox = {
      ...sandbox,
      status: 'failed',
      place: 'unkept',
      ended_at: '2026-11-16T09:05:00Z',
      kept: {
        kept: true,
        ref: 'refs/preserved/sbx-1',
        commit: '0123456789abcdef',
        files: 2,
        events: 0,
        set_aside: { ref: 'refs/set-aside/sbx-1', commit: 'fedcba9876543210', files: 1, listed: [{ file: '000001', path: '.git.', reason: 'hasDotgit' }] },
        left_out: [{ path: 'big.bin', bytes: 157286400, reason: 'it is larger than a push' }],
        left_out_files: 2,
        left_out_bytes: 157286410,
        notes: ['pipe is not kept: it is neither a file nor a link'],
      },
      rescue: { tries: 1, error: '2 files are not kept: big.bin' },
    }
    show()
    expect(await screen.findByText(/A part of its work could not be kept, and nothing is deleted until you decide: 2 files/)).toBeTruthy()
    await userEvent.click(screen.getByRole('tab', { name: /Details/ }))
    expect(screen.getByText('Left out: 2 files, 150 MiB')).toBeTruthy()
    expect(screen.getByText('big.bin: it is larger than a push')).toBeTruthy()
    expect(screen.getByText('1 file not listed')).toBeTruthy()
    expect(screen.getByText('.git.: hasDotgit')).toBeTruthy()
    expect(screen.getByText(/1 file with a name that Git rejects, stored under a number; INDEX lists the original names: refs\/set-aside\/sbx-1 at fedcba987654/)).toBeTruthy()
    await userEvent.click(screen.getByRole('button', { name: 'Discard' }))
    expect(within(await screen.findByRole('dialog')).getByText(/2 files are lost for good; everything else is kept on/)).toBeTruthy()
  })

  test('offers no decision to one who may only look', async () => {
    sandbox = { ...sandbox, status: 'failed', place: 'unkept', ended_at: '2026-11-16T09:05:00Z', kept: null, rescue: { tries: 8, error: 'no' } }
    show('viewer')
    expect(await screen.findByText(/nothing is deleted until you decide/)).toBeTruthy()
    expect(screen.queryByRole('button', { name: 'Discard' })).toBeNull()
  })

  test('says how it ended and where the work is', async () => {
    sandbox = { ...sandbox, status: 'failed', ended_at: '2026-11-16T09:05:00Z', kept: { kept: true, ref: 'refs/preserved/sbx-1', commit: '0123456789abcdef', files: 2, events: 0 } }
    show()
    expect(await screen.findByText('Kept: 2 files on refs/preserved/sbx-1 at 0123456789ab')).toBeTruthy()
    expect(screen.queryByRole('button', { name: 'Stop' })).toBeNull()
  })
})
