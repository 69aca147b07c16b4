import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useSession } from '../../api/session'
import type { Priority, Task } from '../../api/types'
import { usd } from '../../ui/amount'
import { Copy } from '../../ui/Copy'
import { ErrorPanel } from '../../ui/panels'
import { plain, shortId } from '../../ui/plain'
import { Reported } from '../../ui/Reported'
import { Ago } from '../../ui/Time'
import { PRIORITIES } from './priority'
import { taskPriority } from './queries'

export function Facts({ task }: { task: Task }) {
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-1 text-xs text-muted">
      <Copy text={task.id} label={`Copy the id ${task.id}`} className="font-mono">
        {shortId(task.id)}
      </Copy>
      <Link to="/projects/$id" params={{ id: task.project_id }} className="text-accent hover:underline">
        project
      </Link>
      <PriorityOf task={task} />
      <span>{stageWords(task)}</span>
      {task.branch_name && <span className="untrusted font-mono break-all">{plain(task.branch_name)}</span>}
      <span>
        retries {task.retry_count} of {task.max_retries}
      </span>
      <span>{usd(task.cost_usd ?? 0)}</span>
      <Reported cost={task.reported_cost} beside={task.cost_usd ?? 0} />
      <span>
        made <Ago at={task.created_at} />
      </span>
    </div>
  )
}

function stageWords({ stage, status }: Task): string {
  if (status === 'completed' || status === 'failed' || status === 'cancelled') return 'over'
  return stage === 'check' ? 'stage: checks, its commit is to be proven' : 'stage: work'
}

/** Says how urgent it is, and lets it be changed while that still means something. */
function PriorityOf({ task }: { task: Task }) {
  const who = useSession()
  const queries = useQueryClient()
  const change = useMutation({
    mutationFn: (priority: Priority) => taskPriority(task.id, priority),
    onSettled: () => queries.invalidateQueries({ queryKey: ['task', task.id] }),
  })
  const isOver = task.status === 'completed' || task.status === 'failed' || task.status === 'cancelled'
  if (isOver || who?.role === 'viewer') return <span>priority {task.priority.toLowerCase()}</span>
  return (
    <>
      <label className="flex items-center gap-1.5">
        priority
        <select
          value={(change.isPending ? change.variables : undefined) ?? task.priority}
          disabled={change.isPending}
          onChange={(event) => {
            const wanted = PRIORITIES.find((one) => one === event.target.value)
            if (wanted) change.mutate(wanted)
          }}
          className="h-7 rounded border border-line-strong bg-surface px-1 text-fg"
        >
          {PRIORITIES.map((one) => (
            <option key={one} value={one}>
              {one.toLowerCase()}
            </option>
          ))}
        </select>
      </label>
      {change.error && <ErrorPanel error={change.error} />}
    </>
  )
}
