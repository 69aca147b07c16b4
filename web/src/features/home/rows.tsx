import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Sandbox, Task } from '../../api/types'
import { endedWords } from '../../parts/ended'
import { usd } from '../../ui/amount'
import { oneLine, shortId } from '../../ui/plain'
import { State } from '../../ui/State'
import { Ago } from '../../ui/Time'
import type { Doing } from '../../live/doing'
import { taskName } from './queries'

const CHARS = 140
const LATELY = 8
const ROW = 'flex min-h-8 flex-wrap items-center gap-x-3 gap-y-0.5 border-b border-line px-3 py-1 last:border-b-0'

type RunningProps = {
  sandboxes: Sandbox[]
  taskOf: (sandbox: Sandbox) => string | undefined
  acts: ReadonlyMap<string, Doing>
}

export function Running({ sandboxes, taskOf, acts }: RunningProps) {
  return (
    <ul>
      {sandboxes.map((sandbox) => (
        <li key={sandbox.id} className={ROW}>
          <State state={sandbox.status} />
          <Link
            to="/sandboxes/$id"
            params={{ id: sandbox.id }}
            title={sandbox.id}
            className="untrusted min-w-0 font-medium text-accent hover:underline"
          >
            {oneLine(taskOf(sandbox) ?? shortId(sandbox.id), CHARS)}
          </Link>
          <span className="untrusted min-w-0 flex-1 basis-60 truncate text-muted">
            {acts.get(sandbox.id)?.words ?? 'nothing to see yet'}
          </span>
          <span className="text-xs text-muted tabular-nums">{usd(sandbox.cost_usd ?? 0)}</span>
          <span className="text-xs text-muted">
            <Ago at={sandbox.created_at} />
          </span>
        </li>
      ))}
    </ul>
  )
}

export function Wrong({ sandboxes }: { sandboxes: Sandbox[] }) {
  return (
    <ul>
      {sandboxes.map((sandbox) => (
        <li key={sandbox.id} className={ROW}>
          <State state={sandbox.status} />
          <Link
            to="/sandboxes/$id"
            params={{ id: sandbox.id }}
            title={sandbox.id}
            className="untrusted min-w-0 flex-1 basis-40 truncate text-accent hover:underline"
          >
            {sandbox.task_id ? <TaskTitle id={sandbox.task_id} /> : shortId(sandbox.id)}
          </Link>
          <span title={oneLine(reason(sandbox), 1_000)} className="max-w-50 truncate text-xs text-muted">
            {oneLine(reason(sandbox), CHARS)}
          </span>
          <span className="text-xs text-muted">
            <Ago at={sandbox.ended_at} />
          </span>
        </li>
      ))}
    </ul>
  )
}

function reason({ place_error, end_reason }: Sandbox): string {
  return place_error ?? (end_reason ? endedWords(end_reason) : '')
}

function TaskTitle({ id }: { id: string }) {
  const { data } = useQuery(taskName(id))
  return <>{data ? oneLine(data.title, CHARS) : shortId(id)}</>
}

const newestFirst = (a: Task, b: Task) => (b.completed_at ?? '').localeCompare(a.completed_at ?? '')

export function Completed({ tasks }: { tasks: Task[] }) {
  return (
    <ul>
      {tasks
        .toSorted(newestFirst)
        .slice(0, LATELY)
        .map((task) => (
          <li key={task.id} className={ROW}>
            <State state={task.status} />
            <Link
              to="/tasks/$id"
              params={{ id: task.id }}
              className="untrusted min-w-0 flex-1 basis-40 truncate text-accent hover:underline"
            >
              {oneLine(task.title, CHARS)}
            </Link>
            <span className={`text-xs ${isVerified(task) ? 'text-ok' : 'text-warn'}`}>
              {isVerified(task) ? 'verified' : 'unverified'}
            </span>
            <span className="text-xs text-muted tabular-nums">{usd(task.cost_usd ?? 0)}</span>
            <span className="text-xs text-muted">
              <Ago at={task.completed_at} />
            </span>
          </li>
        ))}
    </ul>
  )
}

function isVerified(task: Task): boolean {
  return task.result?.verification === 'verified'
}
