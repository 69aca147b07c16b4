import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ErrorPanel, Skeleton } from '../../ui/panels'
import { oneLine, shortId } from '../../ui/plain'
import { Quiet } from '../../ui/Section'
import { State } from '../../ui/State'
import { taskDependencies, taskOne } from './queries'

const SHOWN = 20
const TITLE_CHARS = 120

/** What it waits for and what waits for it. */
export function DependencyList({ id }: { id: string }) {
  const { data, error, refetch } = useQuery(taskDependencies(id))
  if (error) return <ErrorPanel error={error} onRetry={() => void refetch()} />
  if (!data) return <Skeleton rows={2} label="Loading dependencies" />
  if (data.depends_on.length === 0 && data.blocks.length === 0) {
    return <Quiet>It waits for no other task, and none waits for it.</Quiet>
  }
  return (
    <div className="grid gap-3 px-3 py-2 md:grid-cols-2">
      <Tasks title="Waits for" ids={data.depends_on} />
      <Tasks title="Waited for by" ids={data.blocks} />
    </div>
  )
}

function Tasks({ title, ids }: { title: string; ids: string[] }) {
  if (ids.length === 0) return null
  return (
    <div>
      <h2 className="text-xs text-muted">{title}</h2>
      <ul>
        {ids.slice(0, SHOWN).map((id) => (
          <li key={id} className="flex min-h-7 items-center gap-2">
            <TaskName id={id} />
          </li>
        ))}
      </ul>
      {ids.length > SHOWN && <p className="text-xs text-muted">and {ids.length - SHOWN} more</p>}
    </div>
  )
}

function TaskName({ id }: { id: string }) {
  const { data } = useQuery(taskOne(id))
  return (
    <>
      {data && <State state={data.status} />}
      <Link to="/tasks/$id" params={{ id }} className="untrusted min-w-0 truncate text-accent hover:underline">
        {data ? oneLine(data.title, TITLE_CHARS) : shortId(id)}
      </Link>
    </>
  )
}
