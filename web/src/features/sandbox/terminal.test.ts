import { expect, test } from 'vitest'
import type { LogEvent } from '../../live/log'
import { Rows } from '../../live/rows'
import { TerminalLines, type Line } from './terminal'

function event(seq: number, type: string, data: object): LogEvent {
  return { seq, position: seq, type, data, at: '2026-11-16T09:00:00Z' }
}

const use = (seq: number, id: string) => event(seq, 'agent.tool_use', { tool_use_id: id, input: { command: id } })
const output = (seq: number, id: string, text: string) => event(seq, 'command.output', { command_id: id, text })
const say = (seq: number) => event(seq, 'agent.message', { content: 'hm' })

function words(lines: readonly Line[]): string[] {
  return lines.map((line) => {
    switch (line.kind) {
      case 'command':
        return `$ ${line.row.id}`
      case 'output':
        return line.spans.map((span) => span.text).join('')
      case 'note':
        return line.words
      default:
        return line satisfies never
    }
  })
}

test('the lines that come piece by piece are those of the whole', () => {
  const all = [use(1, 'make'), output(2, 'make', 'one\n'), say(3), use(4, 'ls'), output(5, 'make', 'two\n'), output(6, 'ls', 'a\nb\n')]
  const [rows, lines] = [new Rows(), new TerminalLines()]
  for (let count = 1; count <= all.length; count++) {
    const now = words(lines.update(rows.update(all.slice(0, count))))
    expect(now).toEqual(words(new TerminalLines().update(new Rows().update(all.slice(0, count)))))
  }
  expect(words(lines.update(rows.update(all)))).toEqual(['$ make', 'one', 'two', '', '$ ls', 'a', 'b', ''])
})

test('a moment further back has fewer lines', () => {
  const all = [use(1, 'make'), output(2, 'make', 'one\n'), use(3, 'ls')]
  const [rows, lines] = [new Rows(), new TerminalLines()]
  lines.update(rows.update(all))
  expect(words(lines.update(rows.update(all.slice(0, 1))))).toEqual(['$ make', ''])
  expect(lines.update([])).toEqual([])
})
