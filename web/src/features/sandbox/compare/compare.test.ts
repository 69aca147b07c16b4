import { describe, expect, test } from 'vitest'
import type { Sandbox, Task } from '../../../api/types'
import type { LogEvent } from '../../../live/log'
import { firstDifference, more, pairsOf, sideOf, type Run } from './compare'

const AT = '2026-11-16T09:00:30Z'

function run(events: [string, object?][], sandbox: Partial<Sandbox> = {}, task: Partial<Task> | null = null): Run {
  return {
    sandbox: { id: 'sbx-1', created_at: '2026-11-16T09:00:00Z', ...sandbox } as Sandbox,
    task: task as Task | null,
    costs: undefined,
    events: events.map(([type, data], n): LogEvent => ({ seq: n + 1, position: n, type, data: data ?? {}, at: AT })),
  }
}

const side = (...events: [string, object?][]) => sideOf(run(events))

describe('one attempt', () => {
  test('is told by what its agent did, and a helper’s turns are not its own', () => {
    const edit = { file_path: 'a.rs', lines_added: 3, lines_removed: 1 }
    const told = sideOf(
      run([
        ['agent.assistant_message', { turn: 1 }],
        ['agent.assistant_message', { turn: 1, parent_tool_use_id: 't' }],
        ['agent.tool_use', { tool: 'Bash' }],
        ['agent.tool_use', { tool: 'Bash' }],
        ['agent.tool_use', { tool: 'Edit' }],
        ['agent.file_edited', edit],
        ['agent.assistant_message', { turn: 2 }],
        ['agent.file_edited', edit],
        ['agent.completed', { final_output: 'It works.' }],
      ]),
    )
    expect([told.turns, told.files.length, told.added, told.removed]).toEqual([2, 1, 6, 2])
    expect([...told.tools]).toEqual([['Bash', 2], ['Edit', 1]])
    expect(told.outcome).toBe('completed: It works.')
  })

  test.each([
    [[['agent.failed', { failure_kind: 'limit', error: 'no turns left' }]], 'limit: no turns left'],
    [[['continuous.completed', { stop_reason: 'max_runs', final_output: 'enough' }]], 'max_runs: enough'],
    [[['agent.message', {}]], undefined],
  ] as [[string, object][], string | undefined][])('%j came to %s', (events, outcome) => {
    expect(sideOf(run(events)).outcome).toBe(outcome)
  })

  test('lasts to its end, or to the last that was heard of it', () => {
    expect(sideOf(run([['agent.message']])).durationMs).toBe(30_000)
    expect(sideOf(run([['agent.message']], { ended_at: '2026-11-16T09:02:00Z' })).durationMs).toBe(120_000)
    expect(sideOf(run([])).durationMs).toBeUndefined()
  })

  test('has the checks that ran in it, and those of its task only if it is the one that counts', () => {
    const ran: [string, object][] = [
      ['check.completed', { name: 'unit', passed: false }],
      ['check.completed', { name: 'unit', passed: true }],
      ['check.completed', { name: 'lint', passed: false }],
    ]
    const result = { verification: 'verified', checks: [{ name: 'lint', passed: true }] }
    expect(sideOf(run(ran)).checks).toEqual([{ name: 'lint', passed: false }, { name: 'unit', passed: true }])
    const last = sideOf(run(ran, {}, { sandbox_id: 'sbx-1', result }))
    expect([last.verification, last.checks[0]]).toEqual(['verified', { name: 'lint', passed: true }])
    expect(sideOf(run(ran, {}, { sandbox_id: 'sbx-2', result })).verification).toBeUndefined()
  })
})

describe('where two attempts part', () => {
  const begin: [string, object?][] = [['agent.started'], ['agent.tool_use', { tool: 'Read' }]]

  test('is the first step of another kind, whatever came between by chance', () => {
    const a = side(...begin, ['agent.heartbeat'], ['command.output', { text: 'x' }], ['agent.tool_use', { tool: 'Bash' }])
    const b = side(...begin, ['agent.tool_use', { tool: 'Edit' }])
    expect(firstDifference(a, b)).toEqual({
      after: 2,
      a: { kind: 'agent.tool_use Bash', seq: 5 },
      b: { kind: 'agent.tool_use Edit', seq: 3 },
    })
  })

  test('is the end of the shorter one', () => {
    expect(firstDifference(side(...begin), side(...begin, ['agent.completed']))).toEqual({
      after: 2,
      a: undefined,
      b: { kind: 'agent.completed', seq: 3 },
    })
  })

  test('is nowhere when they did the same', () => {
    expect(firstDifference(side(...begin), side(...begin, ['agent.heartbeat']))).toBeUndefined()
  })
})

test('what either has stands in one row', () => {
  expect(pairsOf(new Map([['b', 1], ['a', 2]]), new Map([['b', 3]]))).toEqual([
    { name: 'a', a: 2, b: undefined },
    { name: 'b', a: 1, b: 3 },
  ])
})

test('a difference has a sign, and is nothing where there is none', () => {
  expect([more(1, 3, String), more(3, 1, String), more(2, 2, String), more(undefined, 1, String)]).toEqual(['+2', '−2', '', ''])
})
