// What became of a task and by whom, put together from what the server keeps: the task, its attempts, and the audit
// trail for those who may read it.

import { endedWords } from '../../parts/ended'
import type { AuditEntry, Sandbox, Task } from '../../api/types'

export type Change = {
  at: string
  /** Told apart from others of the same moment. */
  key: string
  what: string
  /** The person, or what did it where that was no person. */
  who: string
  sandbox?: string
  detail?: string
}

const DEEDS: Record<string, string> = {
  'task.create': 'made',
  'task.create_batch': 'made, with others',
  'task.update': 'changed',
  'task.cancel': 'cancelled',
  'task.retry': 'put back to be tried again',
  'task.dependencies': 'given other dependencies',
}

/** Newest first. */
export function historyOf(task: Task, attempts: readonly Sandbox[], audit: readonly AuditEntry[]): Change[] {
  const changes = [...audit.map(ofAudit), ...attempts.flatMap(ofAttempt)]
  // Without the trail, what the task itself tells.
  if (!audit.some(({ action }) => action === 'task.create')) changes.push({ at: task.created_at, key: 'made', what: 'made', who: '' })
  if (task.completed_at && !isToldBy(task, audit)) {
    changes.push({
      at: task.completed_at,
      key: 'over',
      what: task.status,
      who: 'Omoi',
      ...(task.error_message && { detail: task.error_message }),
    })
  }
  return changes.toSorted((a, b) => Date.parse(b.at) - Date.parse(a.at))
}

function isToldBy(task: Task, audit: readonly AuditEntry[]): boolean {
  return task.status === 'cancelled' && audit.some(({ action }) => action === 'task.cancel')
}

function ofAudit({ n, at, actor, action, detail }: AuditEntry): Change {
  const told = Object.entries(detail as Record<string, unknown>)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
  return {
    at,
    key: `audit ${n}`,
    what: DEEDS[action] ?? action,
    who: actor,
    ...(told.length > 0 && { detail: told.join(', ') }),
  }
}

function ofAttempt(sandbox: Sandbox): Change[] {
  const { id, stage, created_at, started_at, ended_at, status, end_reason } = sandbox
  const purpose = stage === 'check' ? 'for its checks' : 'to work on it'
  const common = { sandbox: id, who: sandbox.agent_id ?? 'Omoi' }
  const reason = end_reason && endedWords(end_reason)
  return [
    { ...common, at: created_at, key: `${id} ordered`, what: `assigned: a sandbox is made ${purpose}` },
    ...(started_at ? [{ ...common, at: started_at, key: `${id} started`, what: 'running: the worker has begun' }] : []),
    ...(ended_at ? [{ ...common, at: ended_at, key: `${id} ended`, what: `sandbox ended: ${status}`, ...(reason && reason !== status && { detail: reason }) }] : []),
  ]
}
