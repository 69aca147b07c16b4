import { expect, test } from 'vitest'
import type { Task } from '../../../api/types'
import { ordered } from './columns'
import { asBoardSearch, matches } from './search'

const task = (id: string, more: Partial<Task> = {}) =>
  ({ id, title: id, priority: 'MEDIUM', score: 0, status: 'pending', created_at: 'c', updated_at: 'u', ...more }) as Task
const at = (id: string, time: string) => task(id, { status: 'running', started_at: time })
const ended = (id: string, time: string) => task(id, { status: 'failed', completed_at: time })
const ids = (tasks: Task[]) => tasks.map(({ id }) => id).join(' ')

test('what waits is ordered by priority, then by score, then by age', () => {
  const tasks = [
    task('young', { created_at: '2' }),
    task('old', { created_at: '1' }),
    task('low', { priority: 'LOW', score: 9 }),
    task('likely', { score: 0.5 }),
    task('urgent', { priority: 'CRITICAL' }),
  ]
  expect(ids(ordered('pending', tasks))).toBe('urgent likely old young low')
})

test('what runs longest comes first, and so does what ended last', () => {
  expect(ids(ordered('running', [at('later', '2'), at('earlier', '1')]))).toBe('earlier later')
  expect(ids(ordered('failed', [ended('earlier', '1'), ended('later', '2')]))).toBe('later earlier')
})

test('a task that is on two pages stands once, as it was told last', () => {
  const [one] = ordered('pending', [task('a'), task('a', { title: 'newer' })])
  expect(one?.title).toBe('newer')
})

test.each([
  ['refund page', true],
  ['PAGE refund', true],
  ['refund nothing', false],
  ['task-1', true],
  ['feature/x', true],
  ['', true],
])('looking for %j', (q, isFound) => {
  expect(matches(task('task-1', { title: 'Refund page', branch_name: 'feature/x' }), { q })).toBe(isFound)
})

test('only tasks of the wanted priority fit', () => {
  expect([matches(task('a'), { priority: 'HIGH' }), matches(task('a', { priority: 'HIGH' }), { priority: 'HIGH' })]).toEqual([false, true])
})

test('the address keeps what it knows and nothing else', () => {
  const given = { project: 'prj-1', q: 12, priority: 'HIGH', view: 'list', status: 'failed', cancelled: true, task: 'task-1', ticket: 'tkt-1' }
  expect(asBoardSearch(given)).toEqual({ ...given, q: '12' })
  expect(asBoardSearch({ project: 7, q: '', priority: 'urgent', view: 'grid', status: 'odd', cancelled: 'yes', x: 1 })).toEqual({})
})
