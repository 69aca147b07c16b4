import { expect, test } from 'vitest'
import type { Task } from '../../api/types'
import { waitWords } from './Waits'

const words = (change: Partial<Task>) => waitWords({ status: 'pending', unmet_dependencies: 0, ...change } as Task)

test.each<[string, Partial<Task>, string[]]>([
  ['about to start', {}, []],
  ['its dependencies', { unmet_dependencies: 2 }, ['Waits until the tasks it depends on are completed.']],
  ['what the server says', { unmet_dependencies: 2, waiting_for: { reason: 'dependencies', text: '2 tasks it depends on are not completed' } }, ['Not started yet: 2 tasks it depends on are not completed.']],
  ['somebody', { status: 'running', waiting_reason: 'budget_exceeded: task' }, ['Waits for you: budget_exceeded: task. Raise the budget, or cancel it.']],
  ['nothing once it runs', { status: 'running', unmet_dependencies: 2 }, []],
])('a task that waits for %s says so', (_for, change, expected) => {
  expect(words(change)).toEqual(expected)
})
