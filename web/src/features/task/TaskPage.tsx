import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { asProblem, Problem } from '../../api/problem'
import { useSession } from '../../api/session'
import type { Task } from '../../api/types'
import { useAtMostEverySecond, useLive } from '../../app/live'
import { usd } from '../../ui/amount'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { oneLine, plain } from '../../ui/plain'
import { Section } from '../../ui/Section'
import { State } from '../../ui/State'
import { Ago } from '../../ui/Time'
import { Attempts } from './Attempts'
import { DependencyList } from './DependencyList'
import { OutcomeView } from './OutcomeView'
import { taskAttempts, taskCancel, taskOne, taskRetry, taskStart } from './queries'

const TITLE_CHARS = 160

export function TaskPage({ id, onStarted }: { id: string; onStarted: (sandbox: string) => void }) {
  const task = useQuery(taskOne(id))
  const attempts = useQuery(taskAttempts(id))
  const queries = useQueryClient()
  const refetch = useAtMostEverySecond(() => void queries.invalidateQueries({ queryKey: ['task', id] }))
  // Its own changes, and those of the sandbox that holds it.
  const holder = task.data?.sandbox_id
  const filter = useMemo(() => ({ entityIds: holder ? [id, holder] : [id], eventTypes: CHANGES }), [id, holder])
  useLive(filter, refetch)

  if (task.error instanceof Problem && [404, 422].includes(task.error.status)) {
    return (
      <Page title="No such task">
        <Empty title={`There is no task ${oneLine(id, TITLE_CHARS)}.`}>
          <Link to="/tasks" className="text-accent underline">
            All tasks
          </Link>
        </Empty>
      </Page>
    )
  }
  const title = task.data ? oneLine(task.data.title, TITLE_CHARS) : 'Task'
  return (
    <Page title={title} aside={task.data && <State state={task.data.status} />}>
      {task.isPending && <Skeleton rows={6} label="Loading the task" />}
      {task.error && <ErrorPanel error={task.error} onRetry={() => void task.refetch()} />}
      {task.data && (
        <div className="flex flex-col gap-4 p-4">
          <Facts task={task.data} />
          <Actions task={task.data} onStarted={onStarted} />
          <Waits task={task.data} />
          <OutcomeView task={task.data} />
          <Attempts attempts={attempts} />
          <DependencyList id={id} />
          <Section title="What to do">
            <p className="untrusted px-3 py-2">{plain(task.data.description || task.data.title)}</p>
          </Section>
        </div>
      )}
    </Page>
  )
}

const CHANGES = [
  'TASK_STATUS_CHANGED',
  'TASK_ASSIGNED',
  'TASK_STARTED',
  'TASK_COMPLETED',
  'TASK_FAILED',
  'TASK_CANCELLED',
  'TASK_UPDATED',
  'TASK_WAITING',
  'TASK_RETRY_SCHEDULED',
  'TASK_TIMED_OUT',
  'TASK_DEPENDENCY_UPDATED',
  'TASKS_UNBLOCKED',
  'SANDBOX_ENDED',
  'SANDBOX_SPAWNED',
  'SANDBOX_KEPT',
  'SANDBOX_model.call',
]

function Facts({ task }: { task: Task }) {
  return (
    <p className="flex flex-wrap gap-x-4 gap-y-1 text-xs text-muted">
      <span className="font-mono break-all">{task.id}</span>
      <Link to="/projects/$id" params={{ id: task.project_id }} className="text-accent hover:underline">
        project
      </Link>
      <span>priority {task.priority.toLowerCase()}</span>
      {task.branch_name && <span className="untrusted font-mono break-all">{plain(task.branch_name)}</span>}
      <span>
        retries {task.retry_count} of {task.max_retries}
      </span>
      <span>{usd(task.cost_usd ?? 0)}</span>
      <span>
        made <Ago at={task.created_at} />
      </span>
    </p>
  )
}

/** What can be done with it as it is now. Retry puts it back and starts it in one go. */
function Actions({ task, onStarted }: { task: Task; onStarted: (sandbox: string) => void }) {
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
  const cancel = useMutation({ mutationFn: () => taskCancel(task.id), onSettled: settle })
  if (who?.role === 'viewer') return null
  const isBusy = start.isPending || retry.isPending || cancel.isPending
  const error = start.error ?? retry.error ?? cancel.error
  const isHeld = task.status === 'assigned' || task.status === 'running'
  const isOver = task.status === 'failed' || task.status === 'cancelled'
  const isBlocked = task.unmet_dependencies > 0
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
          <Button disabled={isBusy} onClick={() => (isHeld ? setIsAsking(true) : cancel.mutate())}>
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

/** Why it stands still, if it does. */
function Waits({ task }: { task: Task }) {
  const words: string[] = []
  if (task.waiting_reason) words.push(`Waits for you: ${plain(task.waiting_reason)}. Raise the budget, or cancel it.`)
  if (task.status === 'pending' && task.unmet_dependencies > 0) words.push('Waits until the tasks it depends on are completed.')
  if (words.length === 0) return null
  return <p className="untrusted rounded-lg bg-warn-soft px-3 py-2 text-warn">{words.join(' ')}</p>
}
