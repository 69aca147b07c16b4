// What a person may do with a task as it stands. The server has the last word; nothing is offered that it would refuse.

import type { Priority, Task, TaskStatus } from '../../api/types'

export type Move =
  | { kind: 'start' }
  | { kind: 'retry' }
  /** One that is under way is asked about first. */
  | { kind: 'cancel'; isAsked: boolean }
  | { kind: 'priority'; to: Priority }

/** Most urgent first. */
export const PRIORITIES: readonly Priority[] = ['CRITICAL', 'HIGH', 'MEDIUM', 'LOW']

export type Movable = Pick<Task, 'status' | 'priority' | 'unmet_dependencies'>

/** All there is, in the order of a menu. */
export function movesOf(task: Movable): Move[] {
  const others = PRIORITIES.filter((priority) => priority !== task.priority)
  const priorities = others.map((to): Move => ({ kind: 'priority', to }))
  switch (task.status) {
    case 'pending': {
      const start: Move[] = task.unmet_dependencies === 0 ? [{ kind: 'start' }] : []
      return [...start, ...priorities, { kind: 'cancel', isAsked: false }]
    }
    case 'assigned':
    case 'running':
      return [...priorities, { kind: 'cancel', isAsked: true }]
    case 'failed':
    case 'cancelled':
      return [{ kind: 'retry' }, ...priorities]
    case 'completed':
      return []
    default:
      return task.status satisfies never
  }
}

/** What putting its card into a column means; nothing where the rules do not allow it. */
export function moveInto(task: Movable, column: TaskStatus): Move | undefined {
  const wanted = { pending: 'retry', assigned: 'start', running: 'start', cancelled: 'cancel', completed: '', failed: '' }[column]
  return column === task.status ? undefined : movesOf(task).find((move) => move.kind === wanted)
}

/** A card that is put on another that waits takes its priority: that is what orders them. */
export function moveOnto(task: Movable, other: Movable): Move | undefined {
  if (task.status !== 'pending' || other.status !== 'pending' || task.priority === other.priority) return undefined
  return { kind: 'priority', to: other.priority }
}

/** One step more urgent, or less. */
export function moveBy(task: Movable, step: 1 | -1): Move | undefined {
  const to = PRIORITIES[PRIORITIES.indexOf(task.priority) - step]
  return movesOf(task).find((move) => move.kind === 'priority' && move.to === to)
}

export function moveWords(move: Move): string {
  switch (move.kind) {
    case 'start':
      return 'Start now'
    case 'retry':
      return 'Retry'
    case 'cancel':
      return 'Cancel'
    case 'priority':
      return `Priority ${move.to.toLowerCase()}`
    default:
      return move satisfies never
  }
}

export function moveKey(move: Move): string {
  return move.kind === 'priority' ? move.to : move.kind
}
