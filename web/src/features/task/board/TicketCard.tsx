import { Link } from '@tanstack/react-router'
import type { Ticket } from '../../../api/types'
import { Menu, type MenuItem } from '../../../ui/Menu'
import { oneLine } from '../../../ui/plain'
import { Ago } from '../../../ui/Time'
import { PriorityWord } from '../PriorityWord'
import { dragging } from './Frame'

const TITLE_CHARS = 200

type Props = {
  ticket: Ticket
  isBusy: boolean
  items: readonly MenuItem[]
  /** Shows its tasks. */
  onOpen: () => void
  onDrag: ((ticket: Ticket | undefined) => void) | undefined
}

/** A ticket on the board. A click shows its tasks. */
export function TicketCard({ ticket, isBusy, items, onOpen, onDrag }: Props) {
  return (
    <article
      {...dragging(ticket, onDrag)}
      data-card
      aria-busy={isBusy}
      className={`relative flex flex-col gap-1 rounded-md border border-line bg-surface px-2 py-1.5 hover:border-line-strong has-[button:focus-visible]:border-accent ${isBusy ? 'opacity-60' : ''}`}
    >
      <div className="flex items-center gap-2 text-2xs text-subtle">
        <span title={ticket.id} className="font-mono whitespace-nowrap">
          #{ticket.number}
        </span>
        <span>{ticket.ticket_type}</span>
        <PriorityWord priority={ticket.priority} />
        <span className="flex-1" />
        <Ago at={ticket.updated_at} />
        {items.length > 0 && <Menu label={`Actions for ${oneLine(ticket.title, 60)}`} items={items} className="-my-1 -mr-1 z-1" />}
      </div>
      <button
        type="button"
        title="Its tasks"
        data-open
        onClick={onOpen}
        className="untrusted line-clamp-2 min-h-6 cursor-pointer text-left font-medium outline-none after:absolute after:inset-0 focus-visible:underline"
      >
        {oneLine(ticket.title, TITLE_CHARS)}
      </button>
      <Link
        to="/graph"
        search={{ scope: 'ticket', id: ticket.id }}
        draggable={false}
        className="z-1 inline-flex min-h-6 items-center self-start text-2xs text-muted hover:text-accent hover:underline"
      >
        Its graph
      </Link>
    </article>
  )
}
