import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { asProblem } from '../../api/problem'
import { useSession } from '../../api/session'
import type { Task } from '../../api/types'
import { usePageActions } from '../../app/actions'
import { tell } from '../../app/toast'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { ErrorPanel } from '../../ui/panels'
import { taskCancel, taskRetry, taskStart } from './queries'
import { undoOf } from './undo'

/** What can be done with it as it is now. Retry puts it back and starts it in one go. */
export function Actions({ task, onStarted }: { task: Task; onStarted: (sandbox: string) => void }) {
  const who = useSession()
  const queries = useQueryClient()
  const [isAsking, setIsAsking] = useState(false)
  const settle = () => queries.invalidateQueries({ queryKey: ['task', task.id] })
  const start = useMutation({ mutationFn: () => taskStart(task), onSuccess: onStarted, onSettled: settle })
  const retry = useMutation({
    mutationFn: async () => taskStart(await taskRetry(task.id)),
    onSuccess: onStarted,
    onSettled: settle,
  })
  const cancel = useMutation({
    mutationFn: () => taskCancel(task.id),
    onSuccess: () => {
      const back = undoOf(task, { kind: 'cancel', isAsked: false })
      if (back) tell({ words: back.words, undo: () => back.undo().finally(settle) })
    },
    onSettled: settle,
  })
  const isBusy = start.isPending || retry.isPending || cancel.isPending
  const error = start.error ?? retry.error ?? cancel.error
  const isHeld = task.status === 'assigned' || task.status === 'running'
  const isOver = task.status === 'failed' || task.status === 'cancelled'
  const isBlocked = task.unmet_dependencies > 0
  const askOrCancel = () => (isHeld ? setIsAsking(true) : cancel.mutate())
  const isOffered = who?.role !== 'viewer' && !isBusy
  usePageActions([
    ...(isOffered && task.status === 'pending' && !isBlocked ? [{ label: 'Start this task', run: () => start.mutate() }] : []),
    ...(isOffered && isOver ? [{ label: 'Retry this task', run: () => retry.mutate() }] : []),
    ...(isOffered && (task.status === 'pending' || isHeld) ? [{ label: 'Cancel this task', run: askOrCancel }] : []),
  ])
  if (who?.role === 'viewer') return null
  return (
    <>
      <div className="flex flex-wrap gap-2 empty:hidden">
        {task.status === 'pending' && (
          <Button look="main" disabled={isBusy || isBlocked} onClick={() => start.mutate()}>
            {start.isPending ? 'Starting…' : 'Start'}
          </Button>
        )}
        {isOver && (
          <Button look="main" disabled={isBusy} onClick={() => retry.mutate()}>
            {retry.isPending ? 'Starting again…' : 'Retry'}
          </Button>
        )}
        {isHeld && task.sandbox_id && (
          <Link
            to="/sandboxes/$id"
            params={{ id: task.sandbox_id }}
            className="inline-flex min-h-7 items-center rounded bg-accent px-3 font-medium text-on-accent hover:opacity-90"
          >
            Watch it work
          </Link>
        )}
        {(task.status === 'pending' || isHeld) && (
          <Button disabled={isBusy} onClick={askOrCancel}>
            {cancel.isPending ? 'Cancelling…' : 'Cancel'}
          </Button>
        )}
      </div>
      {error && (
        <div className="-m-3">
          <ErrorPanel error={asProblem(error)} />
        </div>
      )}
      {isAsking && (
        <Dialog
          title="Cancel this task?"
          onClose={() => setIsAsking(false)}
          actions={
            <Button
              onClick={() => {
                setIsAsking(false)
                cancel.mutate()
              }}
            >
              Cancel the task
            </Button>
          }
        >
          <p>Its sandbox is ended. What it has changed so far is kept on its branch, and the task can be retried.</p>
        </Dialog>
      )}
    </>
  )
}
