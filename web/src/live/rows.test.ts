import { describe, expect, test } from 'vitest'
import type { LogEvent } from './log'
import { OUTPUT_CHARS_MAX, Rows, type Row, type ToolRow } from './rows'

const at = (seq: number) => new Date(Date.UTC(2026, 10, 16, 9, 0, seq)).toISOString()

function event(seq: number, type: string, data: unknown = {}): LogEvent {
  return { seq, position: seq * 10, type, data, at: at(seq) }
}

const use = (seq: number, id: string, more: object = {}) =>
  event(seq, 'agent.tool_use', { tool: 'Bash', tool_use_id: id, input: { command: 'ls' }, turn: 1, ...more })

const tool = (row: Row | undefined): ToolRow => {
  if (row?.kind !== 'tool') throw new Error(`not a tool: ${row?.kind}`)
  return row
}

describe('rows', () => {
  test('put a call, its output and its result together by their id', () => {
    const rows = new Rows().update([
      use(1, 'a'),
      use(2, 'b'),
      event(3, 'command.started', { command_id: 'a', argv: ['ls'] }),
      event(4, 'command.output', { command_id: 'b', text: 'of b\n' }),
      event(5, 'command.output', { command_id: 'a', text: 'one\n' }),
      event(6, 'command.output', { command_id: 'a', text: 'two\n', dropped_bytes: 7 }),
      event(7, 'command.completed', { command_id: 'a', exit_code: 2 }),
      event(8, 'agent.tool_result', { tool_use_id: 'a', result: 'one two' }),
      event(9, 'agent.tool_completed', { tool_use_id: 'a', exit_code: 2 }),
    ])
    expect(rows).toHaveLength(2)
    const [a, b] = [tool(rows[0]), tool(rows[1])]
    expect(a.output).toEqual({ text: 'one\ntwo\n', isCut: false, droppedBytes: 7 })
    expect([a.use?.seq, a.started?.seq, a.ended?.seq, a.result?.seq, a.done?.seq]).toEqual([1, 3, 7, 8, 9])
    expect([b.output.text, b.done]).toEqual(['of b\n', undefined])
  })

  test('show a call whose beginning is not loaded', () => {
    const [row] = new Rows().update([event(8, 'agent.tool_completed', { tool_use_id: 'a', tool: 'Read' })])
    expect([tool(row).use, tool(row).done?.seq]).toEqual([undefined, 8])
  })

  test('take the same id for another call once the first is over', () => {
    const rows = new Rows().update([use(1, 'a'), event(2, 'agent.tool_completed', { tool_use_id: 'a' }), use(3, 'a')])
    expect(rows.map((row) => [row.key, tool(row).done?.seq])).toEqual([
      ['event-1', 2],
      ['event-3', undefined],
    ])
  })

  test('hang what a helper does below the call that asked it', () => {
    const rows = new Rows().update([
      use(1, 'helper', { tool: 'Task' }),
      event(2, 'agent.message', { content: 'I look', parent_tool_use_id: 'helper', turn: 1 }),
      use(3, 'inner', { parent_tool_use_id: 'helper' }),
      event(4, 'agent.message', { content: 'meanwhile', turn: 2 }),
      event(5, 'command.output', { command_id: 'inner', text: 'found' }),
      event(6, 'agent.file_edited', { file_path: 'a', tool_use_id: 'inner' }),
      event(7, 'agent.subagent_completed', { tool_use_id: 'helper', subagent_result: 'done' }),
      event(8, 'agent.tool_completed', { tool_use_id: 'helper' }),
    ])
    expect(rows.map((row) => row.seq)).toEqual([1, 4])
    const helper = tool(rows[0])
    expect(helper.children.map((row) => [row.kind, row.seq])).toEqual([
      ['message', 2],
      ['tool', 3],
      ['edit', 6],
    ])
    expect(tool(helper.children[1]).output.text).toBe('found')
    expect(helper.done?.type).toBe('agent.subagent_completed')
  })

  test('stay shallow, however deep helpers ask helpers', () => {
    const chain = Array.from({ length: 500 }, (_, i) => use(i + 1, `t${i}`, { parent_tool_use_id: `t${i - 1}` }))
    const depth = (row: Row | undefined): number => (row?.kind === 'tool' ? 1 + Math.max(0, ...row.children.map(depth)) : 0)
    const rows = new Rows().update(chain)
    expect(rows).toHaveLength(1)
    expect(depth(rows[0])).toBeLessThanOrEqual(6)
  })

  test('tell what an answer cost with the answer, each its own', () => {
    const call = (seq: number, out: number) => event(seq, 'model.call', { state: 'done', input_tokens: 5, output_tokens: out })
    const frame = (seq: number, out: number, more: object) =>
      event(seq, 'agent.assistant_message', { usage: { input_tokens: 5, output_tokens: out }, ...more })
    const rows = new Rows().update([
      use(1, 'helper', { turn: 1 }),
      call(2, 20),
      call(3, 30),
      frame(4, 30, { turn: 2 }),
      event(5, 'agent.thinking', { turn: 2 }),
      event(6, 'agent.message', { content: 'mine', turn: 2 }),
      frame(7, 20, { turn: 1, parent_tool_use_id: 'helper' }),
      use(8, 'inner', { turn: 1, parent_tool_use_id: 'helper' }),
    ])
    expect(rows.map((row) => row.seq)).toEqual([1, 5, 6])
    expect(rows[2]).toMatchObject({ kind: 'message', call: { seq: 3 } })
    expect(tool(tool(rows[0]).children[0]).call?.seq).toBe(2)
  })

  test('tell a call that failed for itself', () => {
    const rows = new Rows().update([event(1, 'model.call', { state: 'refused', status_code: 403 })])
    expect(rows.map((row) => row.kind)).toEqual(['event'])
  })

  test('fold heartbeats that follow each other', () => {
    const beat = (seq: number) => event(seq, 'agent.heartbeat')
    const rows = new Rows().update([beat(1), beat(2), event(3, 'agent.message'), beat(4)])
    expect(rows.map((row) => [row.key, row.kind === 'beats' ? row.count : 1])).toEqual([
      ['beats-1', 2],
      ['event-3', 1],
      ['beats-4', 1],
    ])
  })

  test('name what is missing', () => {
    const rows = new Rows().update([event(4, 'agent.heartbeat'), event(7, 'agent.heartbeat'), event(8, 'agent.message')])
    expect(rows.map((row) => row.kind)).toEqual(['beats', 'hole', 'beats', 'message'])
    expect(rows[1]).toMatchObject({ key: 'hole-4', count: 2 })
  })

  test('keep the objects of rows that did not change', () => {
    const derived = new Rows()
    const events = [event(1, 'agent.message'), use(2, 'a'), use(3, 'b')]
    const before = derived.update(events)
    const after = derived.update([...events, event(4, 'command.output', { command_id: 'b', text: 'x' })])
    expect([after[0] === before[0], after[1] === before[1], after[2] === before[2]]).toEqual([true, true, false])
  })

  test('keep them when earlier events are loaded, and come out as if all had come in order', () => {
    const all = [
      event(1, 'agent.started'),
      use(2, 'a'),
      event(3, 'agent.message', { content: 'x' }),
      event(4, 'agent.tool_completed', { tool_use_id: 'a' }),
      event(5, 'agent.heartbeat'),
    ]
    const derived = new Rows()
    const late = derived.update(all.slice(2))
    const rows = derived.update(all)
    expect(rows).toEqual(new Rows().update(all))
    expect(rows.find((row) => row.seq === 3)).toBe(late[0])
    expect(rows.find((row) => row.kind === 'beats')).toBe(late[2])
  })

  test('keep only the last of a long output, cut at a line', () => {
    const derived = new Rows()
    const pieces = Array.from({ length: 30 }, (_, i) => event(i + 2, 'command.output', { command_id: 'a', text: `${'x'.repeat(9_999)}\n` }))
    const row = tool(derived.update([use(1, 'a'), ...pieces])[0])
    expect(row.output.isCut).toBe(true)
    expect(row.output.text.length).toBeLessThanOrEqual(OUTPUT_CHARS_MAX)
    expect(row.output.text.length % 10_000).toBe(0)
  })

  test.each([null, 3, 'text', [], { tool_use_id: 5 }, { tool_use_id: 'a', parent_tool_use_id: 'a' }, JSON.parse('{"__proto__":{"turn":1}}')])(
    'take data of any shape: %j',
    (data) => {
      const types = ['agent.message', 'agent.tool_use', 'agent.tool_result', 'command.output', 'agent.file_edited', 'model.call', 'x']
      const events = types.map((type, i) => event(i + 1, type, data))
      expect(() => new Rows().update(events)).not.toThrow()
    },
  )

  test('of ten thousand events cost little for each one more', () => {
    const derived = new Rows()
    const events = Array.from({ length: 10_000 }, (_, i) => event(i + 1, 'agent.message'))
    const before = derived.update(events)
    const after = derived.update([...events, event(10_001, 'agent.message')])
    expect(after).toHaveLength(10_001)
    expect(after.slice(0, -1).every((row, i) => row === before[i])).toBe(true)
  })
})
