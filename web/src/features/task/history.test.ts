import { expect, test } from 'vitest'
import type { AuditEntry, Sandbox, Task } from '../../api/types'
import { historyOf } from './history'

const task = { id: 'task-1', created_at: '2026-11-16T09:00:00Z', status: 'failed', completed_at: '2026-11-16T09:10:00Z', error_message: 'no' } as Task
const sandbox = {
  id: 'sbx-1',
  stage: 'work',
  status: 'lost',
  created_at: '2026-11-16T09:01:00Z',
  started_at: '2026-11-16T09:02:00Z',
  ended_at: '2026-11-16T09:09:00Z',
  end_reason: 'lease_expired',
} as Sandbox

const line = (n: number, at: string, action: string, detail: object = {}) => ({ n, at, actor: 'ada', action, detail }) as AuditEntry

test('tells what became of a task, newest first, without the audit trail too', () => {
  const told = historyOf(task, [sandbox], []).map(({ what, who, detail }) => [what, who, detail])
  expect(told).toEqual([
    ['failed', 'Omoi', 'no'],
    ['sandbox ended: lost', 'Omoi', 'fell silent'],
    ['running: the worker has begun', 'Omoi', undefined],
    ['assigned: a sandbox is made to work on it', 'Omoi', undefined],
    ['made', '', undefined],
  ])
})

test('names who did it where the trail says so, and tells nothing twice', () => {
  const cancelled = { ...task, status: 'cancelled' } as Task
  const trail = [
    line(2, '2026-11-16T09:10:00Z', 'task.cancel', { reason: 'enough' }),
    line(1, '2026-11-16T09:00:00Z', 'task.create', { title: 't', x: null }),
  ]
  expect(historyOf(cancelled, [], trail).map(({ what, who, detail }) => [what, who, detail])).toEqual([
    ['cancelled', 'ada', 'reason: enough'],
    ['made', 'ada', 'title: t'],
  ])
})
