import { expect, test } from 'vitest'
import type { Spec, Task } from '../../api/types'
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
  const gates = [{ id: 'spec', current_phase: 'design', updated_at: '2026-11-16T08:30:00Z' } as Spec]
  const found = needs(held, [task('pending')], failed, acts, gates)
  expect(found.map((need) => [need.kind, need.kind === 'gate' ? need.spec.id : need.task.id, need.words])).toEqual([
    ['failed', 'failed', 'no'],
    ['gate', 'spec', 'design of the spec'],
    ['budget', 'spent', 'budget_exceeded: …'],
    ['asks', 'asks', 'keep it?'],
  ])
})
