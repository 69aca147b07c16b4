import { expect, test } from 'vitest'
import type { Diagnosis, GuardianIntervention, Sandbox, Spec, Task } from '../../api/types'
import { idOf, needs } from './Needs'

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
  const suggestions = [{ id: 'int', do: 'nudge', finding: 'in circles', created_at: '2026-11-16T09:40:00Z' } as GuardianIntervention]
  const diagnoses = [{ id: 'dia', root_cause: 'no disk', created_at: '2026-11-16T07:00:00Z' } as Diagnosis]
  const unkept = [{ id: 'sbx-unkept', ended_at: '2026-11-16T06:00:00Z', rescue: { tries: 8, error: 'too large' } } as Sandbox]
  const found = needs(held, [task('pending')], failed, acts, gates, { suggestions, diagnoses }, unkept)
  expect(found.map((need) => [need.kind, idOf(need), need.words])).toEqual([
    ['unkept', 'sbx-unkept', 'too large'],
    ['diagnosis', 'dia', 'no disk'],
    ['failed', 'failed', 'no'],
    ['gate', 'spec', 'design of the spec'],
    ['budget', 'spent', 'budget_exceeded: …'],
    ['asks', 'asks', 'keep it?'],
    ['suggestion', 'int', 'in circles'],
  ])
})
