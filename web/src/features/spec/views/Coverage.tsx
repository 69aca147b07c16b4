import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Check, Circle, CircleDashed, CircleDot, X, type LucideIcon } from 'lucide-react'
import type { CoverageRow, CoverageTask } from '../../../api/types'
import { ErrorPanel, Skeleton } from '../../../ui/panels'
import { nameOf, plain } from '../../../ui/plain'
import { Quiet, Section } from '../../../ui/Section'
import { State } from '../../../ui/State'
import { specCoverage } from '../queries'

const COMMIT_CHARS = 8

/** Each requirement against each task: what proves that it is met. */
export function Coverage({ id }: { id: string }) {
  const { data, error, isPending, refetch } = useQuery(specCoverage(id))
  return (
    <Section
      title="Coverage"
      aside={
        data &&
        data.rows.length > 0 && (
          <span className="text-muted tabular-nums">
            {data.proven_percent} % of {data.rows.length} proven
          </span>
        )
      }
    >
      {isPending && <Skeleton rows={4} label="Loading the coverage" />}
      {error && <ErrorPanel error={error} onRetry={() => void refetch()} />}
      {data?.rows.length === 0 && <Quiet>Nothing to cover yet: requirements and tasks come first.</Quiet>}
      {data && data.rows.length > 0 && <Matrix rows={data.rows} />}
    </Section>
  )
}

function Matrix({ rows }: { rows: CoverageRow[] }) {
  const tasks = columnsOf(rows)
  return (
    <div
      role="region"
      aria-label="Requirements by tasks"
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard
      tabIndex={0}
      className="overflow-x-auto"
    >
      <table className="w-full text-left text-xs">
        <thead>
          <tr className="border-b border-line align-bottom">
            <th scope="col" className="px-3 py-1.5 font-medium text-muted">
              Requirement
            </th>
            <th scope="col" className="px-2 py-1.5 font-medium text-muted">
              Is
            </th>
            {tasks.map((task) => (
              <th key={task.key} scope="col" className="px-2 py-1.5 font-normal">
                <TaskHead task={task} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.requirement} className="border-b border-line align-top last:border-b-0">
              <th scope="row" className="min-w-40 px-3 py-1.5 font-normal">
                <span className="untrusted block font-mono text-muted">{nameOf(row.requirement)}</span>
                <span className="untrusted">{plain(row.title)}</span>
              </th>
              <td className="px-2 py-1.5">
                <Status status={row.status} />
              </td>
              {tasks.map(({ key }) => (
                <td key={key} className="px-2 py-1.5">
                  <Cell task={row.tasks.find((task) => task.key === key)} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** Every task once, in the order of their keys. */
export function columnsOf(rows: readonly CoverageRow[]): CoverageTask[] {
  const found = new Map(rows.flatMap((row) => row.tasks).map((task) => [task.key, task]))
  return [...found.values()].toSorted((a, b) => a.key.localeCompare(b.key, 'en', { numeric: true }))
}

function TaskHead({ task }: { task: CoverageTask }) {
  const name = <span className="untrusted font-mono">{nameOf(task.key)}</span>
  return (
    <span className="flex flex-col items-start gap-1">
      {task.task_id ? (
        <Link to="/tasks/$id" params={{ id: task.task_id }} className="inline-flex min-h-6 items-center text-accent hover:underline">
          {name}
        </Link>
      ) : (
        name
      )}
      {task.status && <State state={task.status} />}
    </span>
  )
}

const STATUSES: Record<string, [LucideIcon, string]> = {
  uncovered: [X, 'text-bad'],
  planned: [CircleDashed, 'text-muted'],
  begun: [CircleDot, 'text-run'],
  done: [Circle, 'text-warn'],
  proven: [Check, 'text-ok'],
}

function Status({ status }: { status: string }) {
  const [Icon, tone] = STATUSES[status] ?? [Circle, 'text-muted']
  return (
    <span className={`inline-flex items-center gap-1 font-medium whitespace-nowrap ${tone}`}>
      <Icon size={12} aria-hidden />
      {status === 'done' ? 'done, unproven' : nameOf(status)}
    </span>
  )
}

/** The commit that a task made and the checks that ran on it. */
function Cell({ task }: { task: CoverageTask | undefined }) {
  if (!task) return <span className="text-subtle">–</span>
  if (!task.commit) return <span className="text-muted">{task.status ? 'no commit yet' : 'planned'}</span>
  return (
    <span className="flex flex-col gap-0.5">
      <code className="untrusted font-mono" title={nameOf(task.commit)}>
        {nameOf(task.commit).slice(0, COMMIT_CHARS)}
      </code>
      {task.checks.length === 0 && <span className="text-warn">no check ran</span>}
      {task.checks.map(({ name, passed }) => (
        <span key={name} className={`untrusted inline-flex items-center gap-1 ${passed ? 'text-ok' : 'text-bad'}`}>
          {passed ? <Check size={12} aria-hidden /> : <X size={12} aria-hidden />}
          {nameOf(name)} {passed ? 'passed' : 'failed'}
        </span>
      ))}
    </span>
  )
}
