import { describe, expect, test } from 'vitest'
import { ofStored } from '../../live/log'
import { storedEvent } from '../../test/fakes'
import { rowsOf, textOf, toneOf } from './rows'

const event = (seq: number, type: string, data: unknown = {}) => ({
  ...ofStored(storedEvent(seq, { event_type: type })),
  data,
})

describe('rows', () => {
  test('fold heartbeats that follow each other', () => {
    const beat = (seq: number) => event(seq, 'agent.heartbeat')
    const rows = rowsOf([beat(1), beat(2), event(3, 'agent.message'), beat(4)])
    expect(rows.map((row) => [row.key, row.kind === 'beats' ? row.count : 1])).toEqual([
      ['beats-1', 2],
      ['event-3', 1],
      ['beats-4', 1],
    ])
  })

  test('name what is missing', () => {
    const rows = rowsOf([event(4, 'agent.heartbeat'), event(7, 'agent.heartbeat'), event(8, 'agent.message')])
    expect(rows.map((row) => row.kind)).toEqual(['beats', 'hole', 'beats', 'event'])
    expect(rows[1]).toEqual({ kind: 'hole', key: 'hole-4', count: 2 })
  })

  test.each([
    ['agent.message', { content: 'hello', turn: 1 }, 'hello', 'speech'],
    ['agent.tool_use', { tool: 'Bash', input: { command: 'ls -l' } }, 'Bash · ls -l', 'tool'],
    ['agent.tool_completed', { tool: 'Read', tool_input: { file_path: 'a.rs' }, is_error: true }, 'Read · a.rs', 'bad'],
    ['agent.file_edited', { file_path: 'src/a.rs' }, 'src/a.rs', 'tool'],
    ['check.completed', { name: 'tests', passed: false, output_preview: '1 failed' }, 'tests · 1 failed', 'bad'],
    ['sandbox.completed', { summary: 'done' }, 'done', 'good'],
    ['something.new', { anything: 1 }, '', 'plain'],
  ])('say what %s says', (type, data, words, tone) => {
    expect([textOf(event(1, type, data)), toneOf(event(1, type, data))]).toEqual([words, tone])
  })

  test.each([null, 3, 'text', [], { content: { deep: 1 }, tool: 5, input: 'x' }, JSON.parse('{"__proto__":{"content":"x"}}')])(
    'take data of any shape: %j',
    (data) => {
      expect(textOf(event(1, 'agent.message', data))).toBe('')
    },
  )
})
