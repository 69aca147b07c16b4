import { Link } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import type { ReactNode } from 'react'
import type { Task, TaskStatus } from '../../../api/types'
import { ErrorPanel, Skeleton } from '../../../ui/panels'
import { State } from '../../../ui/State'
import { moveInto, moveOnto, type Move } from '../moves'
import type { Column } from './columns'
import { Cards, Frame } from './Frame'

const EMPTY: Record<TaskStatus, string> = {
  pending: 'Nothing waits.',
  assigned: 'Nothing is about to begin.',
  running: 'Nothing runs.',
  completed: 'Nothing is completed yet.',
  failed: 'Nothing failed.',
  cancelled: 'Nothing was cancelled.',
}

type Props = {
  column: Column
  isSearch: boolean
  project: string | undefined
  dragged: Task | undefined
  onMove: (task: Task, move: Move) => void
  renderCard: (task: Task) => ReactNode
}

/** One state of tasks. */
export function ColumnView({ column, isSearch, project, dragged, onMove, renderCard }: Props) {
  const { status, tasks, more, hasMore } = column
  const taking = (move: Move | undefined) => (dragged && move ? () => onMove(dragged, move) : undefined)
  return (
    <Frame
      name={status}
      title={<State state={status} />}
      count={column.isPending ? '' : `${tasks.length}${hasMore ? '+' : ''}`}
      onTake={taking(dragged && moveInto(dragged, status))}
      aside={
        status === 'pending' && (
          <Link
            to="/sandboxes/new"
            search={project ? { project } : {}}
            aria-label="New task"
            title="New task"
            className="inline-flex size-6 items-center justify-center rounded text-muted hover:bg-raised hover:text-fg"
          >
            <Plus size={15} aria-hidden />
          </Link>
        )
      }
    >
      {column.isPending && <Skeleton rows={3} label={`Loading ${status} tasks`} />}
      {column.error && <ErrorPanel error={column.error} onRetry={column.retry} />}
      {!column.isPending && !column.error && tasks.length === 0 && (
        <p className="px-2 py-1 text-xs text-muted">{isSearch ? 'Nothing fits the filter.' : EMPTY[status]}</p>
      )}
      <Cards
        label={`${status} tasks`}
        cards={tasks}
        ontoOf={(task) => (dragged && dragged.id !== task.id ? taking(moveOnto(dragged, task)) : undefined)}
        onNearEnd={hasMore ? more : undefined}
        render={renderCard}
      >
        {column.searched !== undefined && (
          <p className="py-2 text-xs text-muted">The newest {column.searched} were searched; there are more.</p>
        )}
        {column.isLoadingMore && <p className="py-2 text-xs text-muted">Loading more…</p>}
      </Cards>
    </Frame>
  )
}
