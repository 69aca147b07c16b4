import { Link } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { Plus } from 'lucide-react'
import { useEffect, useId, useRef, type ReactNode } from 'react'
import type { Task, TaskStatus } from '../../../api/types'
import { ErrorPanel, Skeleton } from '../../../ui/panels'
import { State } from '../../../ui/State'
import { moveInto, moveOnto, type Move } from '../moves'
import type { Column } from './columns'

const CARD_PX = 96
const GAP_PX = 6
/** So many cards before the end, more are asked for. */
const AHEAD = 10

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

/** One state of tasks. It scrolls alone, and draws what is in sight. */
export function ColumnView({ column, isSearch, project, dragged, onMove, renderCard }: Props) {
  const { status, tasks, more, hasMore } = column
  const titleId = useId()
  const box = useRef<HTMLDivElement>(null)
  // oxlint-disable-next-line react/incompatible-library -- nothing here is memoised by a compiler
  const rows = useVirtualizer({
    count: tasks.length,
    getScrollElement: () => box.current,
    estimateSize: () => CARD_PX,
    getItemKey: (index) => tasks[index]?.id ?? index,
    gap: GAP_PX,
    overscan: 4,
  })
  const shown = rows.getVirtualItems()
  const isNearEnd = hasMore && (shown.at(-1)?.index ?? 0) >= tasks.length - AHEAD
  useEffect(() => {
    if (isNearEnd && tasks.length > 0) more()
  })

  const into = dragged && moveInto(dragged, status)
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- takes what is dropped; menu and keys do the same
    <section
      data-column={status}
      aria-labelledby={titleId}
      onDragOver={(event) => into && event.preventDefault()}
      onDrop={(event) => {
        if (!dragged || !into) return
        event.preventDefault()
        onMove(dragged, into)
      }}
      className={`flex min-h-0 w-[85vw] max-w-80 shrink-0 snap-start flex-col rounded-lg border bg-sunken md:w-auto md:min-w-56 md:max-w-none md:flex-1 ${into ? 'border-accent' : 'border-line'}`}
    >
      <div className="flex h-9 shrink-0 items-center gap-2 px-2">
        <h2 id={titleId}>
          <State state={status} />
        </h2>
        <span className="text-xs text-muted tabular-nums">
          {column.isPending ? '' : tasks.length}
          {hasMore && '+'}
        </span>
        <span className="flex-1" />
        {status === 'pending' && (
          <Link
            to="/sandboxes/new"
            search={project ? { project } : {}}
            aria-label="New task"
            title="New task"
            className="inline-flex size-6 items-center justify-center rounded text-muted hover:bg-raised hover:text-fg"
          >
            <Plus size={15} aria-hidden />
          </Link>
        )}
      </div>
      {column.isPending && <Skeleton rows={3} label={`Loading ${status} tasks`} />}
      {column.error && <ErrorPanel error={column.error} onRetry={column.retry} />}
      {!column.isPending && !column.error && tasks.length === 0 && (
        <p className="px-2 py-1 text-xs text-muted">{isSearch ? 'Nothing fits the filter.' : EMPTY[status]}</p>
      )}
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls can be reached by keys */}
      <div ref={box} tabIndex={tasks.length > 0 ? -1 : undefined} className="min-h-0 flex-1 overflow-y-auto px-1.5 pb-2">
        <ul aria-label={`${status} tasks`} className="relative" style={{ height: rows.getTotalSize() }}>
          {shown.map(({ index, key, start }) => {
            const task = tasks[index]
            if (!task) return null
            const onto = dragged && dragged.id !== task.id ? moveOnto(dragged, task) : undefined
            return (
              // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- takes what is dropped; menu and keys do the same
              <li
                key={key}
                ref={rows.measureElement}
                data-index={index}
                onDragOver={(event) => onto && event.preventDefault()}
                onDrop={(event) => {
                  if (!dragged || !onto) return
                  event.preventDefault()
                  event.stopPropagation()
                  onMove(dragged, onto)
                }}
                style={{ transform: `translateY(${start}px)` }}
                className="absolute inset-x-0 top-0"
              >
                {renderCard(task)}
              </li>
            )
          })}
        </ul>
        {column.searched !== undefined && (
          <p className="py-2 text-xs text-muted">The newest {column.searched} were searched; there are more.</p>
        )}
        {column.isLoadingMore && <p className="py-2 text-xs text-muted">Loading more…</p>}
      </div>
    </section>
  )
}
