import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Box, GitBranch } from 'lucide-react'
import type { Task, Ticket } from '../../../api/types'
import type { Doing } from '../../../live/doing'
import { Menu, type MenuItem } from '../../../ui/Menu'
import { nameOf, oneLine, shortId } from '../../../ui/plain'
import { Ago } from '../../../ui/Time'
import { NoteLine } from '../NoteLine'
import { PriorityWord } from '../PriorityWord'
import { taskOne } from '../queries'
import { noteOf, since, type Known } from '../note'
import { dragging } from './Frame'

const TITLE_CHARS = 200

export type CardProps = {
  task: Task
  ticket: Ticket | undefined
  known: Known
  act: Doing | undefined
  isOpen: boolean
  isBusy: boolean
  items: readonly MenuItem[]
  onOpen: (id: string) => void
  onTicket: (id: string) => void
  onDrag: ((task: Task | undefined) => void) | undefined
}

/** A task on the board. A click opens the drawer; Enter, or a click that asks for another tab, its page. */
export function TaskCard({ task, ticket, known, act, isOpen, isBusy, items, onOpen, onTicket, onDrag }: CardProps) {
  return (
    <article
      {...dragging(task, onDrag)}
      data-card
      data-task={task.id}
      aria-busy={isBusy}
      className={`relative flex flex-col gap-1 rounded-md border bg-surface px-2 py-1.5 hover:border-line-strong has-[a:focus-visible]:border-accent ${isOpen ? 'border-accent' : 'border-line'} ${isBusy ? 'opacity-60' : ''}`}
    >
      <div className="flex items-center gap-2 text-2xs text-subtle">
        {ticket ? (
          <button
            type="button"
            title={`Only ticket #${ticket.number}, ${oneLine(ticket.title, 120)}`}
            onClick={() => onTicket(ticket.id)}
            className="z-1 -my-1 min-h-6 min-w-6 cursor-pointer text-left font-mono hover:text-accent hover:underline"
          >
            #{ticket.number}
          </button>
        ) : (
          <span title={task.id} className="font-mono whitespace-nowrap">
            {shortId(task.id)}
          </span>
        )}
        <PriorityWord priority={task.priority} />
        <span className="flex-1" />
        <Ago at={since(task)} />
        {items.length > 0 && <Menu label={`Actions for ${oneLine(task.title, 60)}`} items={items} className="-my-1 -mr-1 z-1" />}
      </div>
      <Link
        to="/tasks/$id"
        params={{ id: task.id }}
        data-open
        draggable={false}
        onClick={(event) => {
          // A key has no clicks to count: Enter goes to the page, as links do.
          if (event.detail === 0 || event.ctrlKey || event.metaKey || event.shiftKey) return
          event.preventDefault()
          onOpen(task.id)
        }}
        className="untrusted line-clamp-2 font-medium outline-none after:absolute after:inset-0 focus-visible:underline"
      >
        {oneLine(task.title, TITLE_CHARS)}
      </Link>
      <Place task={task} />
      <CardNote task={task} known={known} act={act} />
    </article>
  )
}

function Place({ task }: { task: Task }) {
  if (!task.sandbox_id && !task.branch_name) return null
  return (
    <p className="flex items-center gap-3 text-2xs text-muted">
      {task.sandbox_id && (
        <Link
          to="/sandboxes/$id"
          params={{ id: task.sandbox_id }}
          title={task.sandbox_id}
          draggable={false}
          className="z-1 inline-flex min-h-6 shrink-0 items-center gap-1 font-mono hover:text-accent"
        >
          <Box size={12} aria-hidden />
          <span className="sr-only">Sandbox </span>
          {shortId(task.sandbox_id)}
        </Link>
      )}
      {task.branch_name && (
        <span title={nameOf(task.branch_name)} className="inline-flex min-w-0 items-center gap-1 font-mono">
          <GitBranch size={12} aria-hidden className="shrink-0" />
          <span className="truncate">{nameOf(task.branch_name)}</span>
        </span>
      )}
    </p>
  )
}

/** Only one task at a time says what it waits for, so the cards in sight ask. */
function CardNote({ task, known, act }: Pick<CardProps, 'task' | 'known' | 'act'>) {
  const isReady = task.status === 'pending' && task.unmet_dependencies === 0 && !task.waiting_reason
  const { data } = useQuery({ ...taskOne(task.id), enabled: isReady })
  const note = noteOf(task, known, act, isReady ? data?.waiting_for : undefined)
  if (!note) return null
  return (
    <>
      <NoteLine note={note} />
      {task.status === 'running' && act?.waits && task.sandbox_id && (
        <Link
          to="/sandboxes/$id"
          params={{ id: task.sandbox_id }}
          draggable={false}
          className="z-1 inline-flex min-h-6 items-center self-start rounded border border-line-strong px-2 text-xs hover:bg-raised"
        >
          Answer
        </Link>
      )}
    </>
  )
}
