import { describe, expect, test } from 'vitest'
import { commandOf, commandsOf, foldFacts, foldFiles } from './facts'
import { Fold, folded } from './fold'
import type { LogEvent } from './log'
import { Rows } from './rows'

function event(seq: number, type: string, data: unknown = {}): LogEvent {
  return { seq, position: seq, type, data, at: new Date(Date.UTC(2026, 10, 16, 9, 0, seq)).toISOString() }
}

const beat = (seq: number, cpu: number) => event(seq, 'agent.heartbeat', { cpu_seconds: cpu })

const edit = (seq: number, path: string, more: object = {}) =>
  event(seq, 'agent.file_edited', { file_path: path, lines_added: 2, lines_removed: 1, change_type: 'modified', ...more })

describe('facts', () => {
  test('tell the figures of the last heartbeats', () => {
    const facts = folded(foldFacts, [
      event(1, 'agent.message', { turn: 4 }),
      event(10, 'agent.heartbeat', { cpu_seconds: 2, memory_bytes: 10, processes: 1 }),
      event(20, 'agent.heartbeat', { cpu_seconds: 7, memory_bytes: 20, processes: 3 }),
      event(21, 'agent.message', { turn: 9, parent_tool_use_id: 'helper' }),
    ])
    expect(facts).toEqual({ turn: 4, memoryBytes: 20, processes: 3, cores: 0.5, beatMs: 10_000, outcome: undefined })
  })

  test('do not guess: nothing from one heartbeat, or from a worker that began anew', () => {
    expect(folded(foldFacts, [beat(1, 5)]).cores).toBeUndefined()
    expect(folded(foldFacts, [beat(1, 5), beat(2, 1)]).cores).toBeUndefined()
  })

  test('sum up what happened to each file', () => {
    const files = folded(foldFiles, [
      edit(1, 'b.rs', { change_type: 'created' }),
      edit(2, 'a.rs'),
      edit(3, 'b.rs'),
      edit(4, 'c.rs', { previous_path: 'b.rs', change_type: 'renamed' }),
    ])
    expect(files.map(({ edits, ...file }) => [file, edits.map((one) => one.seq)])).toEqual([
      [{ path: 'a.rs', added: 2, removed: 1, change: 'modified' }, [2]],
      [{ path: 'c.rs', added: 6, removed: 3, change: 'renamed' }, [1, 3, 4]],
    ])
  })

  test('are the same object while nothing in them changed', () => {
    const [facts, files] = [new Fold(foldFacts), new Fold(foldFiles)]
    const some = [event(1, 'agent.message', { turn: 1 }), edit(2, 'a.rs')]
    const before = [facts.update(some), files.update(some)]
    const more = [...some, event(3, 'agent.message', { turn: 1 })]
    expect([facts.update(more), files.update(more)]).toEqual(before)
    expect(facts.update(more)).toBe(before[0])
    expect(files.update(more)).toBe(before[1])
    expect(files.update([...more, edit(4, 'a.rs')])).not.toBe(before[1])
  })

  test('find the commands, those of helpers too', () => {
    const rows = new Rows().update([
      event(1, 'agent.tool_use', { tool_use_id: 'h', tool: 'Task' }),
      event(2, 'agent.tool_use', { tool_use_id: 'a', input: { command: 'make' }, parent_tool_use_id: 'h' }),
      event(3, 'command.started', { command_id: 'b', argv: ['/bin/bash', '-c', 'ls -l | wc'] }),
      event(4, 'command.started', { command_id: 'c', argv: ['git', 'status'] }),
    ])
    expect(commandsOf(rows).map(commandOf)).toEqual(['make', 'ls -l | wc', 'git status'])
  })
})
