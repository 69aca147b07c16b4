import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Task, TaskStatus } from '../../api/types'
import { useAtMostEverySecond, useLive } from '../../app/live'
import { Button } from '../../ui/Button'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { oneLine, shortId } from '../../ui/plain'
import { State } from '../../ui/State'
import { Ago } from '../../ui/Time'
import { taskList } from './queries'
import { asTaskStatus, TASK_STATUSES } from './status'

const CHANGES = { entityTypes: ['task'] }
const ERROR_CHARS = 160

type Props = { status: TaskStatus | undefined; onStatus: (status: TaskStatus | undefined) => void }

export function TaskListPage({ status, onStatus }: Props) {
  const list = useInfiniteQuery(taskList(status))
  const queries = useQueryClient()
  const refetch = useAtMostEverySecond(() => void queries.invalidateQueries({ queryKey: ['tasks'] }))
  useLive(CHANGES, refetch)
  const tasks = list.data?.pages.flatMap((page) => page.items) ?? []

  return (
    <Page
      title="Tasks"
      aside={
        <label className="flex items-center gap-2 text-muted">
          State
          <select
            value={status ?? ''}
            onChange={(event) => onStatus(asTaskStatus(event.target.value))}
            className="h-7 rounded border border-line-strong bg-surface px-1 text-fg"
          >
            <option value="">any</option>
            {TASK_STATUSES.map((word) => (
              <option key={word}>{word}</option>
            ))}
          </select>
        </label>
      }
    >
      {list.isPending && <Skeleton rows={6} label="Loading tasks" />}
      {list.error && <ErrorPanel error={list.error} onRetry={() => void list.refetch()} />}
      {list.data && tasks.length === 0 && (
        <Empty title={status ? `No task is ${status}.` : 'No task yet.'}>
          {status ? (
            <Button onClick={() => onStatus(undefined)}>Show all tasks</Button>
          ) : (
            <Link to="/sandboxes/new" className="text-accent underline">
              Start the first one
            </Link>
          )}
        </Empty>
      )}
      {tasks.length > 0 && (
        <table className="w-full text-left">
          <thead className="text-2xs text-subtle">
            <tr className="h-7 border-b border-line">
              <th className="px-4 font-medium">State</th>
              <th className="px-2 font-medium">Task</th>
              <th className="hidden px-2 font-medium md:table-cell">Priority</th>
              <th className="hidden px-2 font-medium md:table-cell">Sandbox</th>
              <th className="hidden px-2 font-medium lg:table-cell">Retries</th>
              <th className="hidden px-2 font-medium md:table-cell">Changed</th>
            </tr>
          </thead>
          <tbody>
            {tasks.map((task) => (
              <Row key={task.id} task={task} />
            ))}
          </tbody>
        </table>
      )}
      {list.hasNextPage && (
        <div className="p-3">
          <Button disabled={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
            {list.isFetchingNextPage ? 'Loading…' : 'Show more'}
          </Button>
        </div>
      )}
    </Page>
  )
}

function Row({ task }: { task: Task }) {
  const sandbox = task.sandbox_id && (
    <Link
      to="/sandboxes/$id"
      params={{ id: task.sandbox_id }}
      title={task.sandbox_id}
      className="inline-flex min-h-6 items-center font-mono text-xs text-accent hover:underline"
    >
      {shortId(task.sandbox_id)}
    </Link>
  )
  return (
    <tr className="border-b border-line align-top hover:bg-raised">
      <td className="px-4 py-1.5">
        <State state={task.status} />
      </td>
      <td className="px-2 py-1.5">
        <Link to="/tasks/$id" params={{ id: task.id }} className="untrusted hover:underline">
          {oneLine(task.title, 500)}
        </Link>
        <Note task={task} />
        <p className="md:hidden">{sandbox}</p>
      </td>
      <td className="hidden px-2 py-1.5 text-muted md:table-cell">{task.priority.toLowerCase()}</td>
      <td className="hidden px-2 py-1 md:table-cell">{sandbox || <span className="text-subtle">–</span>}</td>
      <td className="hidden px-2 py-1.5 text-muted tabular-nums lg:table-cell">
        {task.retry_count} of {task.max_retries}
      </td>
      <td className="hidden px-2 py-1.5 text-muted md:table-cell">
        <Ago at={task.updated_at} />
      </td>
    </tr>
  )
}

/** Why it is where it is. */
function Note({ task }: { task: Task }) {
  switch (task.status) {
    case 'failed':
    case 'cancelled':
      return task.error_message ? (
        <p className="untrusted text-xs text-bad">{oneLine(task.error_message, ERROR_CHARS)}</p>
      ) : null
    case 'pending':
      return task.unmet_dependencies > 0 ? (
        <p className="text-xs text-muted">
          waits for {task.unmet_dependencies} other {task.unmet_dependencies === 1 ? 'task' : 'tasks'}
        </p>
      ) : null
    case 'assigned':
    case 'running':
    case 'completed':
      return null
    default:
      return task.status satisfies never
  }
}
