import { expect, test } from 'vitest'
import { conflictOf, conflictWords } from './conflict'

const REASON =
  "what it builds on does not go together: task-1 on omoi/one and task-2 conflict in made.txt, a and b.txt; merge them, push that to the project's repository as omoi/both, and retry the task"

test('the pair, the files and the branch are read from the reason', () => {
  expect(conflictOf({ status: 'failed', error_message: REASON })).toEqual({
    between: [{ id: 'task-1', branch: 'omoi/one' }, { id: 'task-2', branch: undefined }],
    files: 'made.txt, a and b.txt',
    branch: 'omoi/both',
  })
})

test.each([
  ['retried', { status: 'pending', error_message: REASON }],
  ['failed otherwise', { status: 'failed', error_message: 'no turns left' }],
  ['failed without a word', { status: 'failed', error_message: null }],
  ['told by an agent', { status: 'failed', error_message: `The agent says: ${REASON}` }],
] as const)('a task that was %s has none', (_how, task) => {
  expect(conflictOf(task)).toBeUndefined()
})

test('in words, by title where it is known', () => {
  const conflict = conflictOf({ status: 'failed', error_message: REASON.replace('made.txt', 'made\u202e.txt') })
  if (!conflict) throw new Error('no conflict')
  const words = conflictWords(conflict, (id) => (id === 'task-1' ? 'Parser' : undefined))
  expect(words).toBe('cannot begin: Parser and task-2, which it builds on, conflict in made⟨U+202E⟩.txt, a and b.txt')
})
