import { Link } from '@tanstack/react-router'
import { Empty } from '../../ui/panels'

const NEXT =
  'inline-flex min-h-8 items-center rounded bg-accent px-3 font-medium text-on-accent hover:opacity-90'

/** Nothing has happened here yet: the one thing to do next. */
export function Begin({ hasProject }: { hasProject: boolean }) {
  return hasProject ? (
    <Empty title="Nothing has run here yet.">
      <p>A task says what an agent is to do; you watch it work, and get a branch back.</p>
      <Link to="/sandboxes/new" className={NEXT}>
        Start the first task
      </Link>
    </Empty>
  ) : (
    <Empty title="Agents work on a repository, and there is none yet.">
      <p>A project is a Git repository, on this machine or elsewhere, and what its agents may do.</p>
      <Link to="/projects/new" className={NEXT}>
        Add a project
      </Link>
    </Empty>
  )
}
