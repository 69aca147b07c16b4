// How what a person did to a task is taken back, where it can be.

import type { Task } from '../../api/types'
import { oneLine } from '../../ui/plain'
import type { Move } from './moves'
import { taskPriority, taskRetry } from './queries'

const TITLE_CHARS = 60

export type Undo = { words: string; undo: () => Promise<unknown> }

/** Nothing for what cannot be: a sandbox that was ordered or ended is not as if it never was. */
export function undoOf(task: Pick<Task, 'id' | 'title' | 'status' | 'priority'>, move: Move): Undo | undefined {
  const title = `“${oneLine(task.title, TITLE_CHARS)}”`
  switch (move.kind) {
    case 'priority':
      return { words: `${title} is of ${move.to.toLowerCase()} priority now.`, undo: () => taskPriority(task.id, task.priority) }
    case 'cancel':
      return task.status === 'pending' ? { words: `${title} is cancelled.`, undo: () => taskRetry(task.id) } : undefined
    case 'start':
    case 'retry':
      return undefined
    default:
      return move satisfies never
  }
}
