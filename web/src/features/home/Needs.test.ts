import { expect, test } from 'vitest'
import type { Task } from '../../api/types'
import { needs } from './Needs'

const task = (id: string, more: Partial<Task> = {}) =>
  ({ id, title: id, updated_at: '2026-11-16T09:00:00Z', sandbox_id: `sbx-${id}`, ...more }) as Task

test('what waits for a person comes oldest first, and what goes on by itself does not come', () => {
  const held = [task('asks'), task('works'), task('spent', { waiting_reason: 'budget_exceeded: …' })]
  const failed = [task('failed', { completed_at: '2026-11-16T08:00:00Z', error_message: 'no' })]
  const acts = new Map([
    ['sbx-asks', { words: 'keep it?', at: '2026-11-16T09:30:00Z', waits: true }],
    ['sbx-works', { words: 'thinks', at: '2026-11-16T09:30:00Z', waits: false }],
  ])
  const found = needs(held, [task('pending')], failed, acts)
  expect(found.map(({ kind, task: { id }, words }) => [kind, id, words])).toEqual([
    ['failed', 'failed', 'no'],
    ['budget', 'spent', 'budget_exceeded: …'],
    ['asks', 'asks', 'keep it?'],
  ])
})
