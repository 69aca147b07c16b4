import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Conflict } from '../../parts/conflict'
import { Copy } from '../../ui/Copy'
import { nameOf, oneLine, shortId } from '../../ui/plain'
import { taskOne } from './queries'

/** Which two do not go together, where, and what a person has to do about it. */
export function ConflictView({ conflict: { between, files, branch } }: { conflict: Conflict }) {
  return (
    <div className="flex flex-col gap-2 px-3 py-2">
      <p>It cannot begin: two tasks that it builds on have changed the same places.</p>
      <ul aria-label="Tasks that conflict" className="flex flex-col gap-1">
        {between.map((side) => (
          <li key={side.id} className="flex flex-wrap items-center gap-x-3">
            <Name id={side.id} />
            {side.branch && <code className="untrusted font-mono text-xs break-all text-muted">{nameOf(side.branch)}</code>}
          </li>
        ))}
      </ul>
      <p>
        They conflict in <code className="untrusted font-mono text-xs break-all text-bad">{nameOf(files)}</code>
      </p>
      <p className="text-muted">
        Merge both, push that to the project’s repository as{' '}
        <Copy text={branch} label={`Copy the name ${nameOf(branch)}`} className="max-w-full font-mono text-xs">
          <span className="untrusted truncate">{nameOf(branch)}</span>
        </Copy>{' '}
        and retry the task.
      </p>
    </div>
  )
}

function Name({ id }: { id: string }) {
  const { data } = useQuery(taskOne(id))
  return (
    <Link to="/tasks/$id" params={{ id }} className="untrusted min-w-0 text-accent hover:underline">
      {data ? oneLine(data.title, 120) : shortId(id)}
    </Link>
  )
}
