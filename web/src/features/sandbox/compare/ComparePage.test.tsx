import { screen, waitFor, within } from '@testing-library/react'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { session } from '../../../api/session'
import type { StoredEvent } from '../../../api/types'
import { liveEvent, storedEvent } from '../../../test/fakes'
import { refused, serve, showPage, type Answer, type Served } from '../../../test/page'
import { ComparePage } from './ComparePage'

const sandbox = (id: string, more: object) => ({ id, task_id: 'task-1', provider: 'local', created_at: '2026-11-16T09:00:00Z', labels: {}, ...more })
const event = (seq: number, event_type: string, event_data: object): StoredEvent => storedEvent(seq, { event_type, event_data: event_data as never })

let events: Record<string, StoredEvent[]>
let sandboxes: Record<string, object>
let served: Served

const answer: Answer = ({ path, query }) => {
  const [, kind, id = '', part] = path.split('/')
  if (path === '/costs') {
    const isFirst = query.sandbox_id === 'sbx-1'
    return { items: [], totals: { calls: 2, input_tokens: isFirst ? 400 : 900, output_tokens: 90, cache_read_tokens: 0, cache_write_tokens: 0, cost_usd: 0.1 } }
  }
  if (kind !== 'sandboxes') return undefined
  if (part === 'task') return { id: 'task-1', sandbox_id: 'sbx-2', title: 'Add \u202erefunds', result: { verification: 'verified', checks: [{ name: 'unit', passed: true }] } }
  if (part === 'events') {
    const after = Number(query.after ?? 0)
    return { events: (events[id] ?? []).filter(({ seq }) => seq > after).toReversed() }
  }
  return part === undefined ? sandboxes[id] : undefined
}

function show(a?: string, b?: string) {
  served = serve(answer)
  showPage(() => <ComparePage a={a} b={b} />)
}

const row = async (name: string) => {
  const head = await screen.findByRole('rowheader', { name })
  return [...(head.closest('tr')?.querySelectorAll('td') ?? [])].map((cell) => cell.textContent)
}

beforeEach(() => {
  sandboxes = {
    'sbx-1': sandbox('sbx-1', { status: 'failed', ended_at: '2026-11-16T09:00:10Z', end_reason: 'task_failed', cost_usd: 0.1 }),
    'sbx-2': sandbox('sbx-2', { status: 'running', cost_usd: 0.35 }),
  }
  events = {
    'sbx-1': [
      event(1, 'agent.started', {}),
      event(2, 'agent.assistant_message', { turn: 1 }),
      event(3, 'agent.tool_use', { tool: 'Bash' }),
      event(4, 'agent.file_edited', { file_path: 'a.rs', lines_added: 3, lines_removed: 1 }),
      event(5, 'agent.failed', { failure_kind: 'limit', error: 'no turns left' }),
    ],
    'sbx-2': [
      event(1, 'agent.started', {}),
      event(2, 'agent.assistant_message', { turn: 1 }),
      event(3, 'agent.tool_use', { tool: 'Read' }),
      event(4, 'agent.assistant_message', { turn: 2 }),
      event(5, 'agent.file_edited', { file_path: 'b.rs', lines_added: 1, lines_removed: 0 }),
    ],
  }
})

afterEach(() => session.end())

describe('two attempts', () => {
  test('stand side by side with what is different', async () => {
    show('sbx-1', 'sbx-2')
    expect(await row('State')).toEqual(['failed', 'running'])
    expect(await row('Outcome')).toEqual(['limit: no turns left', '–'])
    expect(await row('Why it ended')).toEqual(['task failed', '–'])
    expect(await row('Proof')).toEqual(['–', 'verified'])
    expect(await row('Turns')).toEqual(['1', '2', '+1'])
    expect(await row('Tokens in')).toEqual(['400', '900', '+500'])
    expect(await row('Cost')).toEqual(['$0.10', '$0.35', '+$0.25'])
    expect(await row('Files changed')).toEqual(['1', '1', ''])
    expect(await row('b.rs')).toEqual(['not changed', '+1 lines added, −0 lines removed'])
    expect(await row('unit')).toEqual(['did not run', 'passed'])
    expect(await row('Bash')).toEqual(['1', '0', '−1'])
    expect(screen.getByText('Add ⟨U+202E⟩refunds')).toBeTruthy()
  })

  test('part where the kinds of their steps do, and each side leads there', async () => {
    show('sbx-1', 'sbx-2')
    const section = await screen.findByRole('region', { name: 'Where they part' })
    expect(within(section).getByText('After 2 steps of the same kinds.')).toBeTruthy()
    expect(within(section).getByRole('link', { name: 'agent.tool_use Bash' }).getAttribute('href')).toBe('/sandboxes/sbx-1?event=3')
    expect(within(section).getByRole('link', { name: 'agent.tool_use Read' })).toBeTruthy()
  })

  test('go on being counted while one of them works', async () => {
    show('sbx-1', 'sbx-2')
    expect(await row('Turns')).toEqual(['1', '2', '+1'])
    await waitFor(() => expect(served.isFollowed()).toBe(true))
    events['sbx-2']?.push(event(6, 'agent.assistant_message', { turn: 3 }))
    served.tell(liveEvent(6, { entity_id: 'sbx-2' }))
    await waitFor(async () => expect(await row('Turns')).toEqual(['1', '3', '+2']))
    expect(await row('Events')).toEqual(['5', '6', '+1'])
  })

  test('of which one is not there say which', async () => {
    show('sbx-1', 'sbx-9')
    expect(await screen.findByText('There is no sandbox sbx-9.')).toBeTruthy()
  })

  test('are needed', async () => {
    show('sbx-1')
    expect(await screen.findByText('Two attempts are needed to compare them.')).toBeTruthy()
  })

  test('that cannot be read say why', async () => {
    served = serve((asked) => (asked.path.endsWith('/events') ? refused(500, 'broken', 'broken') : answer(asked)))
    showPage(() => <ComparePage a="sbx-1" b="sbx-2" />)
    expect((await screen.findByRole('alert')).textContent).toContain('broken')
  })
})
