// What the board keeps in its address.

import type { Priority, Task, TaskStatus } from '../../../api/types'
import { PRIORITIES } from '../moves'
import { asTaskStatus } from '../status'

export type BoardSearch = {
  project?: string | undefined
  ticket?: string | undefined
  q?: string | undefined
  priority?: Priority | undefined
  /** Tasks in columns where nothing is said. */
  view?: 'list' | 'tickets' | undefined
  /** In the list; on the board every state has its column. */
  status?: TaskStatus | undefined
  /** Whether what is cancelled has a column. */
  cancelled?: true | undefined
  /** The task in the drawer. */
  task?: string | undefined
}

export function asBoardSearch(search: Record<string, unknown>): BoardSearch {
  const priority = PRIORITIES.find((one) => one === search.priority)
  const status = asTaskStatus(search.status)
  // A number is what the address makes of digits.
  const q = typeof search.q === 'number' ? String(search.q) : search.q
  return {
    ...(typeof search.project === 'string' && search.project && { project: search.project }),
    ...(typeof search.ticket === 'string' && search.ticket && { ticket: search.ticket }),
    ...(typeof q === 'string' && q && { q }),
    ...(priority && { priority }),
    ...((search.view === 'list' || search.view === 'tickets') && { view: search.view }),
    ...(status && { status }),
    ...(search.cancelled === true && { cancelled: true as const }),
    ...(typeof search.task === 'string' && search.task && { task: search.task }),
  }
}

/** The server knows neither of these, so they are looked for in what it has given. */
export function isSearching({ q, priority }: BoardSearch): boolean {
  return q !== undefined || priority !== undefined
}

/** All words, anywhere in what names it. */
export function matches(task: Task, { q, priority }: BoardSearch): boolean {
  if (priority !== undefined && task.priority !== priority) return false
  return matchesWords(`${task.title} ${task.id} ${task.branch_name ?? ''} ${task.sandbox_id ?? ''}`, q)
}

export function matchesWords(text: string, q: string | undefined): boolean {
  const whole = text.toLowerCase()
  return (q ?? '').toLowerCase().split(/\s+/).every((word) => whole.includes(word))
}
