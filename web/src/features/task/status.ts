import type { TaskStatus } from '../../api/types'

/** A record, so that a status which is new in the document fails the type check until it is listed. */
const STATUSES: Record<TaskStatus, true> = {
  pending: true,
  assigned: true,
  running: true,
  completed: true,
  failed: true,
  cancelled: true,
}

export const TASK_STATUSES = Object.keys(STATUSES) as TaskStatus[]

export function asTaskStatus(word: unknown): TaskStatus | undefined {
  return TASK_STATUSES.find((status) => status === word)
}
