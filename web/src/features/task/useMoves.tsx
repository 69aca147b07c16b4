import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'
import { asProblem } from '../../api/problem'
import { useSession } from '../../api/session'
import type { Task } from '../../api/types'
import { tell } from '../../app/toast'
import { Confirm } from '../../ui/Confirm'
import type { MenuItem } from '../../ui/Menu'
import { ErrorPanel } from '../../ui/panels'
import { oneLine } from '../../ui/plain'
import { movesOf, moveWords, type Move } from './moves'
import { bringUpToDate } from './place'
import { taskCancel, taskPriority, taskRetry, taskStart } from './queries'
import { undoOf } from './undo'

type Asked = { task: Task; move: Move }

export type Moves = {
  /** Does it, or asks first whether it should. */
  begin: (task: Task, move: Move | undefined) => void
  /** Nothing for those who may only look. */
  itemsOf: (task: Task) => MenuItem[]
  canMove: boolean
  busyId: string | undefined
  /** What is asked, and what was refused. */
  view: ReactNode
}

/** Changes tasks as a person wants it. What comes of it is told by the server, and shown when it is. */
export function useMoves(): Moves {
  const who = useSession()
  const queries = useQueryClient()
  const [asked, setAsked] = useState<Asked>()
  const change = useMutation({
    mutationFn: carryOut,
    onSuccess: (_done, { task, move }) => {
      setAsked(undefined)
      const back = undoOf(task, move)
      const undo = back && (() => back.undo().finally(() => bringUpToDate(queries, [task.id])))
      if (undo) tell({ words: back.words, undo })
    },
    onSettled: (_done, _error, { task }) => bringUpToDate(queries, [task.id]),
  })
  const canMove = who?.role !== 'viewer'
  const begin: Moves['begin'] = (task, move) => {
    if (!move || !canMove || change.isPending) return
    change.reset()
    if (move.kind === 'cancel' && move.isAsked) setAsked({ task, move })
    else change.mutate({ task, move })
  }
  const itemsOf = (task: Task): MenuItem[] =>
    canMove
      ? movesOf(task).map((move) => ({ label: moveWords(move), onChoose: () => begin(task, move) }))
      : []
  const error = change.error ? asProblem(change.error) : null
  const view = asked ? (
    <Confirm
      title="Cancel this task?"
      action="Cancel the task"
      isBusy={change.isPending}
      error={error}
      onConfirm={() => change.mutate(asked)}
      onClose={() => setAsked(undefined)}
    >
      <p className="untrusted font-medium text-fg">{oneLine(asked.task.title, 200)}</p>
      <p>Its sandbox is ended. What it has changed so far is kept on its branch, and the task can be retried.</p>
    </Confirm>
  ) : (
    error && <ErrorPanel error={error} />
  )
  return { begin, itemsOf, canMove, busyId: change.isPending ? change.variables.task.id : undefined, view }
}

async function carryOut({ task, move }: Asked): Promise<void> {
  switch (move.kind) {
    case 'start':
      await taskStart(task)
      return
    case 'retry':
      await taskRetry(task.id)
      return
    case 'cancel':
      await taskCancel(task.id)
      return
    case 'priority':
      await taskPriority(task.id, move.to)
      return
    default:
      return move satisfies never
  }
}
