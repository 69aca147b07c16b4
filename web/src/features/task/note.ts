// Why a task stands where it stands, in one line.

import type { Task } from '../../api/types'
import type { Doing } from '../../live/doing'
import { conflictOf, conflictWords, type Reasoned } from '../../parts/conflict'
import { nameOf, oneLine } from '../../ui/plain'
import { clock } from '../../ui/time'

const CHARS = 160
const NAME_CHARS = 60
/** Two names and files. */
const CONFLICT_CHARS = 300

export type Note = { tone: 'muted' | 'run' | 'warn' | 'bad' | 'ok'; words: string }
/** What a graph knows of a task is less than what a list does. */
export type Known = ReadonlyMap<string, Pick<Task, 'title'> & Reasoned>

/** By name as far as those it waits for are known, the one first that will not come by itself. */
export function blockedWords(task: Pick<Task, 'dependencies' | 'unmet_dependencies'>, known: Known): string {
  const unmet = task.dependencies.flatMap((id) => {
    const on = known.get(id)
    return on && on.status !== 'completed' ? [on] : []
  })
  const first = unmet.find(isStuck) ?? unmet[0]
  if (!first) return `blocked by ${task.unmet_dependencies} ${task.unmet_dependencies === 1 ? 'task' : 'tasks'}`
  const more = task.unmet_dependencies - 1
  return oneLine(`blocked by ${oneLine(first.title, NAME_CHARS)}${endedWords(first)}${more > 0 ? ` and ${more} more` : ''}`, CONFLICT_CHARS)
}

function endedWords(first: Reasoned): string {
  const conflict = conflictOf(first)
  if (conflict) return `, whose predecessors conflict (${nameOf(conflict.files)})`
  return first.status === 'failed' ? ', which failed' : first.status === 'cancelled' ? ', which was cancelled' : ''
}

function isStuck({ status }: Pick<Task, 'status'>): boolean {
  return status === 'failed' || status === 'cancelled'
}

/** `told` is what the server says a pending task waits for; it says so of one task at a time. */
export function noteOf(task: Task, known: Known, act: Doing | undefined, told: Task['waiting_for']): Note | undefined {
  if (task.waiting_reason) return { tone: 'warn', words: oneLine(`waits for you: ${task.waiting_reason}`, CHARS) }
  switch (task.status) {
    case 'pending': {
      if (task.unmet_dependencies > 0) return { tone: 'muted', words: blockedWords(task, known) }
      if (task.not_before) return { tone: 'muted', words: `is tried again at ${clock(new Date(task.not_before))}` }
      return told ? { tone: 'muted', words: oneLine(told.text, CHARS) } : undefined
    }
    case 'assigned':
      return { tone: 'muted', words: task.stage === 'check' ? 'is about to be proven' : 'gets its sandbox' }
    case 'running':
      return act && { tone: act.waits ? 'warn' : 'run', words: act.waits ? `asks: ${act.words}` : act.words }
    case 'completed':
      return task.result?.verification === 'verified'
        ? { tone: 'ok', words: 'verified' }
        : { tone: 'warn', words: task.result?.verification === 'disputed' ? 'disputed' : 'unverified' }
    case 'failed': {
      const conflict = conflictOf(task)
      if (conflict) return { tone: 'bad', words: oneLine(conflictWords(conflict, (id) => titled(known, id)), CONFLICT_CHARS) }
      return { tone: 'bad', words: oneLine(task.error_message || 'Nothing was said about it.', CHARS) }
    }
    case 'cancelled':
      return task.error_message ? { tone: 'muted', words: oneLine(task.error_message, CHARS) } : undefined
    default:
      return task.status satisfies never
  }
}

function titled(known: Known, id: string): string | undefined {
  const task = known.get(id)
  return task && oneLine(task.title, NAME_CHARS)
}

/** Whether it does not go on without a person. */
export function isNeeding(task: Pick<Task, 'status' | 'waiting_reason'>, act: Doing | undefined): boolean {
  return task.status === 'failed' || Boolean(task.waiting_reason) || (task.status === 'running' && act?.waits === true)
}

/** Since when it is in its state. */
export function since(task: Pick<Task, 'status' | 'created_at' | 'updated_at' | 'started_at' | 'completed_at'>): string {
  switch (task.status) {
    case 'pending':
      return task.created_at
    case 'assigned':
      return task.updated_at
    case 'running':
      return task.started_at ?? task.updated_at
    case 'completed':
    case 'failed':
    case 'cancelled':
      return task.completed_at ?? task.updated_at
    default:
      return task.status satisfies never
  }
}
