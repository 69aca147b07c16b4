import { describe, expect, test } from 'vitest'
import type { Task } from '../../api/types'
import { blockedWords, isNeeding, noteOf, since, type Known } from './note'

const task = (more: Partial<Task>) =>
  ({ status: 'pending', dependencies: [], unmet_dependencies: 0, created_at: 'c', updated_at: 'u', ...more }) as Task

const CONFLICT =
  "what it builds on does not go together: task-a on omoi/a and task-z conflict in made.txt; merge them, push that to the project's repository as omoi/both, and retry the task"

const KNOWN: Known = new Map([
  ['a', { title: 'Parser', status: 'running' }],
  ['b', { title: 'Store\u202e', status: 'failed' }],
  ['c', { title: 'Done', status: 'completed' }],
  ['d', { title: 'Dropped', status: 'cancelled' }],
  ['e', { title: 'Both', status: 'failed', error_message: CONFLICT }],
  ['task-a', { title: 'One', status: 'completed' }],
])

describe('what blocks a task', () => {
  test.each([
    [['a'], 1, 'blocked by Parser'],
    [['c', 'a'], 1, 'blocked by Parser'],
    [['a', 'b'], 2, 'blocked by Store⟨U+202E⟩, which failed and 1 more'],
    [['d'], 1, 'blocked by Dropped, which was cancelled'],
    [['a', 'e'], 1, 'blocked by Both, whose predecessors conflict (made.txt)'],
    [['far', 'away'], 2, 'blocked by 2 tasks'],
    [['far'], 1, 'blocked by 1 task'],
    [['a', 'far'], 2, 'blocked by Parser and 1 more'],
  ])('%j, of which %d unmet', (dependencies, unmet_dependencies, words) => {
    expect(blockedWords({ dependencies, unmet_dependencies }, KNOWN)).toBe(words)
  })
})

describe('why a task stands where it stands', () => {
  const told = { reason: 'not_autonomous', text: 'somebody has to start it' } as const
  const doing = { words: 'Bash make', at: 'x', waits: false }
  test.each([
    [{ waiting_reason: 'budget_exceeded: 2 USD', status: 'running' }, 'warn', 'waits for you: budget_exceeded: 2 USD'],
    [{ dependencies: ['a'], unmet_dependencies: 1 }, 'muted', 'blocked by Parser'],
    [{}, 'muted', 'somebody has to start it'],
    [{ status: 'assigned' }, 'muted', 'gets its sandbox'],
    [{ status: 'assigned', stage: 'check' }, 'muted', 'is about to be proven'],
    [{ status: 'running' }, 'run', 'Bash make'],
    [{ status: 'completed', result: { verification: 'verified' } }, 'ok', 'verified'],
    [{ status: 'completed', result: {} }, 'warn', 'unverified'],
    [{ status: 'failed', error_message: 'no \u001b[31mturns\u001b[0m left' }, 'bad', 'no turns left'],
    [{ status: 'failed', error_message: CONFLICT }, 'bad', 'cannot begin: One and task-z, which it builds on, conflict in made.txt'],
  ] as [Partial<Task>, string, string][])('%j', (more, tone, words) => {
    expect(noteOf(task(more), KNOWN, doing, told)).toEqual({ tone, words })
  })

  test('an agent that asks is told apart from one that works', () => {
    const asks = { words: 'keep it?', at: 'x', waits: true }
    expect(noteOf(task({ status: 'running' }), KNOWN, asks, undefined)).toEqual({ tone: 'warn', words: 'asks: keep it?' })
    expect(isNeeding(task({ status: 'running' }), asks)).toBe(true)
    expect(isNeeding(task({ status: 'running' }), doing)).toBe(false)
    expect(isNeeding(task({ status: 'failed' }), undefined)).toBe(true)
    expect(isNeeding(task({ waiting_reason: 'budget' }), undefined)).toBe(true)
  })

  test('its age is that of its state', () => {
    const times = { started_at: 's', completed_at: 'e' }
    const at = (status: Task['status']) => since(task({ ...times, status }))
    expect(['pending', 'assigned', 'running', 'completed', 'failed'].map((s) => at(s as Task['status']))).toEqual(['c', 'u', 's', 'e', 'e'])
  })
})
