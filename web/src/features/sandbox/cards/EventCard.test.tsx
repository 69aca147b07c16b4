import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { render, screen } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { describe, expect, test, vi } from 'vitest'
import type { LogEvent } from '../../../live/log'
import { Rows } from '../../../live/rows'
import { EventList } from '../EventList'

const none = () => undefined

let seq = 0
function event(type: string, data: unknown): LogEvent {
  seq += 1
  return { seq, position: seq, type, data, at: '2026-11-16T09:00:00Z' }
}

function show(shown: LogEvent[], onFile: (path: string, at: number) => void = none) {
  const rows = new Rows().update(shown)
  const view = render(
    <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { enabled: false } } })}>
      <EventList sandboxId="sbx-1" rows={rows} last={seq} hasEarlier={false} isLoadingEarlier={false} onEarlier={none} onFollow={none} onSelect={none} onFile={onFile} />
    </QueryClientProvider>,
  )
  return view.container
}

const bash = (id: string, command: string) => event('agent.tool_use', { tool: 'Bash', tool_use_id: id, input: { command } })

describe('cards', () => {
  test('a command that runs shows the last of its output, in colour', () => {
    const text = 'one\ntwo\nthree\n\u001b[31mfour\u001b[0m\n'
    const container = show([bash('a', 'make test'), event('command.output', { command_id: 'a', text })])
    expect(screen.getByRole('button', { name: /make test/ })).toBeTruthy()
    expect(screen.getByText('running')).toBeTruthy()
    expect(screen.queryByText('one')).toBeNull()
    expect(container.querySelector('.ansi-red-fg')?.textContent).toBe('four')
  })

  test('a command that failed shows more of its output and says how it ended', () => {
    show([
      bash('a', 'make test'),
      event('command.output', { command_id: 'a', text: 'error: first\n2\n3\n4\n5\n' }),
      event('agent.tool_completed', { tool_use_id: 'a', exit_code: 2, is_error: true, duration_ms: 4200 }),
    ])
    expect(screen.getByText('error: first')).toBeTruthy()
    expect(screen.getByText('exit 2')).toBeTruthy()
    expect(screen.getByText('4.2 s')).toBeTruthy()
  })

  test('a search says how much it found, and what when asked', async () => {
    show([
      event('agent.tool_use', { tool: 'Grep', tool_use_id: 'g', input: { pattern: 'fn main' } }),
      event('agent.tool_result', { tool: 'Grep', tool_use_id: 'g', result: 'src/main.rs:1' }),
      event('agent.tool_completed', { tool: 'Grep', tool_use_id: 'g', tool_response: { matches: 3, files: 2 }, duration_ms: 300 }),
    ])
    expect(screen.getByText('3 matches in 2 files')).toBeTruthy()
    expect(screen.queryByText('src/main.rs:1')).toBeNull()
    await userEvent.click(screen.getByRole('button', { name: /Grep fn main/ }))
    expect(screen.getByText('src/main.rs:1')).toBeTruthy()
  })

  test('a changed file shows its first lines and leads to its diff', async () => {
    const onFile = vi.fn<(path: string, at: number) => void>()
    const diff_preview = 'diff --git a/a.rs b/a.rs\n@@ -1,2 +1,2 @@\n-old\n+new\n same\n'
    const edit = event('agent.file_edited', { file_path: 'a.rs', change_type: 'modified', lines_added: 1, lines_removed: 1, diff_preview })
    const container = show([edit], onFile)
    expect(container.querySelector('.diff-removed')?.textContent).toContain('old')
    await userEvent.click(screen.getByRole('button', { name: 'Open diff' }))
    expect(onFile).toHaveBeenCalledWith('a.rs', edit.seq)
  })

  test('a message says what it cost, thinking is folded, a retry says when', () => {
    show([
      event('model.call', { state: 'done', input_tokens: 400, cache_read_tokens: 2_000, output_tokens: 30, cost_usd: 0.42 }),
      event('agent.assistant_message', { turn: 1, usage: { input_tokens: 400, output_tokens: 30 } }),
      event('agent.thinking', { turn: 1, content: 'hm' }),
      event('agent.message', { turn: 1, content: 'done **well**' }),
      event('agent.stream_error', { error: 'overloaded', attempt: 2, attempts_max: 5, retry_delay_ms: 4_000, status_code: 529 }),
    ])
    expect(screen.getByText('2.4k in · 30 out · $0.42')).toBeTruthy()
    expect(screen.getByText('well').tagName).toBe('STRONG')
    expect(screen.getByRole('button', { name: /Thinking/ }).getAttribute('aria-expanded')).toBe('false')
    expect(screen.getByText('attempt 2 of 5 · again in 4.0 s · status 529')).toBeTruthy()
  })

  test('the end says whether anything proves it', () => {
    show([event('agent.completed', { success: true, turns: 5, output_tokens: 300, cost_usd: 0.5, final_output: 'all good' })])
    expect(screen.getByText('Completed, unverified')).toBeTruthy()
    expect(screen.getByText('5 turns · 0 in · 300 out · $0.50')).toBeTruthy()
  })

  test('what Guardian and Conductor say has its reason, its decision and its effect', async () => {
    show([
      event('guardian.finding', { kind: 'repeated_action', severity: 'warning', text: 'grep 5 times', seqs: [3, 5], do: 'nudge', held: 'cool_down' }),
      event('guardian.steering.intervention', { do: 'nudge', mode: 'suggest', text: 'Try something else.', reason: 'grep 5 times', alignment: 0.5 }),
      event('guardian.intervention.approved', { by: 'ada' }),
      event('guardian.intervention.effect', { effect: 'changed', by: 'another call', alignment: 1 }),
      event('conductor.conflict.found', { kind: 'lines', with: { title: 'Mend it' }, files: [{ path: 'a.py', lines: [{ first: 3, last: 9 }] }] }),
    ])
    expect(screen.getByText('warning · held back: cool down · shown by events 3, 5')).toBeTruthy()
    expect(screen.getByText('by ada')).toBeTruthy()
    expect(screen.getByText('another call · alignment 1.00')).toBeTruthy()
    expect(screen.getByText('a.py 3–9')).toBeTruthy()
    await userEvent.click(screen.getByRole('button', { name: 'Guardian suggests: nudge' }))
    expect(screen.getAllByText('grep 5 times')).toHaveLength(2)
  })

  test('an event that nobody knows is shown with its data', async () => {
    show([event('something.new', { anything: { deep: 1 } })])
    expect(screen.getByText('something.new')).toBeTruthy()
    expect(screen.getByText('{"anything":{"deep":1}}')).toBeTruthy()
    await userEvent.click(screen.getByRole('button', { name: 'Data' }))
    expect(screen.getByText(/"deep": 1/)).toBeTruthy()
  })

  test.each([
    ['agent.message', { content: 'x' }],
    ['agent.tool_use', { tool: 'x', tool_use_id: 'e', input: { command: 'x' } }],
    ['agent.tool_use', { tool: 'x', tool_use_id: 'f', input: { file_path: 'x' } }],
    ['agent.subagent_invoked', { tool_use_id: 's', subagent_type: 'x', subagent_description: 'x' }],
    ['agent.skill_invoked', { tool_use_id: 'k', skill_name: 'x' }],
    ['agent.file_edited', { file_path: 'x', previous_path: 'x', change_type: 'x', diff_preview: '@@ -1 +1 @@\n+x' }],
    ['agent.message_injected', { sender_id: 'x', content: 'x' }],
    ['agent.interrupted', { sender_id: 'x', reason: 'x' }],
    ['agent.failed', { error: 'x', failure_kind: 'x' }],
    ['egress.denied', { host: 'x', reason: 'x' }],
    ['guardian.finding', { kind: 'x', text: 'x', severity: 'x' }],
    ['guardian.steering.intervention', { do: 'x', text: 'x', by: 'x' }],
    ['conductor.conflict.found', { kind: 'x', with: { title: 'x' }, files: [{ path: 'x' }] }],
    ['x', { x: 'x' }],
  ])('%s from a hostile agent is text: nothing runs, hides or is fetched', (type, data) => {
    const evil = '<img src=x onerror=alert(1)><script>alert(2)</script>\u202egnp.exe\u200b\u0007'
    const poisoned = JSON.parse(JSON.stringify({ type, data }).replaceAll('"x"', JSON.stringify(evil))) as { type: string; data: unknown }
    const container = show([event(poisoned.type, poisoned.data)])
    expect(container.querySelectorAll('img, script, iframe, a, object, embed, style')).toHaveLength(0)
    expect(container.textContent).toContain('⟨U+202E⟩gnp.exe⟨U+200B⟩')
    // oxlint-disable-next-line no-control-regex -- none may be left
    expect(container.textContent).not.toMatch(/[\u202a-\u202e\u200b\u0007]/)
  })
})
