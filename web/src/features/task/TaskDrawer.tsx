import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Problem } from '../../api/problem'
import type { Task } from '../../api/types'
import type { Doing } from '../../live/doing'
import { usd } from '../../ui/amount'
import { Button } from '../../ui/Button'
import { Drawer } from '../../ui/Drawer'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { nameOf, oneLine, plain } from '../../ui/plain'
import { Reported } from '../../ui/Reported'
import { Section } from '../../ui/Section'
import { State } from '../../ui/State'
import { Ago } from '../../ui/Time'
import { Attempts } from './Attempts'
import { DependencyList } from './DependencyList'
import { movesOf, moveWords, PRIORITIES } from './moves'
import { NoteLine } from './NoteLine'
import { OutcomeView } from './OutcomeView'
import { PriorityWord } from './PriorityWord'
import { taskAttempts, taskOne } from './queries'
import type { Moves } from './useMoves'
import { noteOf, type Known } from './note'

type Props = { id: string; known: Known; acts: ReadonlyMap<string, Doing>; moves: Moves; onClose: () => void }

/** One task beside the page that shows many. */
export function TaskDrawer({ id, known, acts, moves, onClose }: Props) {
  const task = useQuery(taskOne(id))
  const attempts = useQuery(taskAttempts(id))
  const isMissing = task.error instanceof Problem && [404, 422].includes(task.error.status)
  return (
    <Drawer label={task.data ? oneLine(task.data.title, 120) : 'Task'} onClose={onClose}>
      {task.isPending && <Skeleton rows={6} label="Loading the task" />}
      {isMissing && <Empty title={`There is no task ${oneLine(id, 80)}.`} />}
      {task.error && !isMissing && <ErrorPanel error={task.error} onRetry={() => void task.refetch()} />}
      {task.data && (
        <div className="flex flex-col gap-4 p-4">
          <Facts task={task.data} />
          <Note task={task.data} known={known} act={acts.get(task.data.sandbox_id ?? '')} />
          <Actions task={task.data} moves={moves} />
          <Section title="What to do">
            <p className="untrusted px-3 py-2">{plain(task.data.description || task.data.title)}</p>
          </Section>
          <OutcomeView task={task.data} />
          <DependencyList id={id} />
          <Attempts attempts={attempts} />
        </div>
      )}
    </Drawer>
  )
}

function Facts({ task }: { task: Task }) {
  return (
    <p className="flex flex-wrap items-center gap-x-3 gap-y-1 text-xs text-muted">
      <State state={task.status} />
      <PriorityWord priority={task.priority} />
      <span className="font-mono break-all">{task.id}</span>
      {task.branch_name && <span className="untrusted font-mono break-all">{nameOf(task.branch_name)}</span>}
      <span>
        retries {task.retry_count} of {task.max_retries}
      </span>
      <span>{usd(task.cost_usd ?? 0)}</span>
      <Reported cost={task.reported_cost} beside={task.cost_usd ?? 0} />
      <span>
        made <Ago at={task.created_at} />
      </span>
    </p>
  )
}

/** An outcome says it better. */
function Note({ task, known, act }: { task: Task; known: Known; act: Doing | undefined }) {
  const isOver = task.status === 'completed' || task.status === 'failed' || task.status === 'cancelled'
  const note = isOver ? undefined : noteOf(task, known, act, task.waiting_for)
  return note ? <NoteLine note={note} /> : null
}

function Actions({ task, moves }: { task: Task; moves: Moves }) {
  const isHeld = task.status === 'assigned' || task.status === 'running'
  const isBusy = moves.busyId === task.id
  const all = moves.canMove ? movesOf(task) : []
  const offered = all.filter(({ kind }) => kind !== 'priority')
  return (
    <div className="flex flex-wrap items-center gap-2">
      <Link
        to="/tasks/$id"
        params={{ id: task.id }}
        className="inline-flex min-h-7 items-center rounded bg-accent px-3 font-medium text-on-accent hover:opacity-90"
      >
        Open the page
      </Link>
      {isHeld && task.sandbox_id && (
        <Link
          to="/sandboxes/$id"
          params={{ id: task.sandbox_id }}
          className="inline-flex min-h-7 items-center rounded border border-line-strong bg-surface px-3 font-medium hover:bg-raised"
        >
          Watch it work
        </Link>
      )}
      {offered.map((move) => (
        <Button key={move.kind} disabled={isBusy} onClick={() => moves.begin(task, move)}>
          {moveWords(move)}
        </Button>
      ))}
      {offered.length > 0 && (
        <label className="flex items-center gap-1.5 text-muted">
          Priority
          <select
            value={task.priority}
            disabled={isBusy}
            onChange={(event) => moves.begin(task, all.find((move) => move.kind === 'priority' && move.to === event.target.value))}
            className="h-7 rounded border border-line-strong bg-surface px-1 text-fg"
          >
            {PRIORITIES.map((priority) => (
              <option key={priority} value={priority}>
                {priority.toLowerCase()}
              </option>
            ))}
          </select>
        </label>
      )}
    </div>
  )
}
