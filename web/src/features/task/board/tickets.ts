// Tickets by their state, and what a person may do with one.

import type { Priority, Ticket, TicketStatus } from '../../../api/types'
import { PRIORITIES } from '../moves'
import { matchesWords, type BoardSearch } from './search'

/** In the order in which a ticket goes through them. */
export const TICKET_STATUSES: readonly TicketStatus[] = ['backlog', 'analyzing', 'building', 'building-done', 'testing', 'done', 'cancelled']

export const TICKET_WORDS: Record<TicketStatus, string> = {
  backlog: 'Backlog',
  analyzing: 'Analysing',
  building: 'Building',
  'building-done': 'Built',
  testing: 'Testing',
  done: 'Done',
  cancelled: 'Cancelled',
}

export type TicketMove = { kind: 'status'; to: TicketStatus } | { kind: 'priority'; to: Priority }

/** All there is, in the order of a menu: a person may put a ticket wherever they see it. */
export function ticketMoves({ status, priority }: Pick<Ticket, 'status' | 'priority'>): TicketMove[] {
  return [
    ...TICKET_STATUSES.filter((to) => to !== status).map((to) => ({ kind: 'status', to }) as const),
    ...PRIORITIES.filter((to) => to !== priority).map((to) => ({ kind: 'priority', to }) as const),
  ]
}

export function ticketMoveWords({ kind, to }: TicketMove): string {
  return kind === 'status' ? `Move to ${TICKET_WORDS[to].toLowerCase()}` : `Priority ${to.toLowerCase()}`
}

export type TicketColumn = { status: TicketStatus; tickets: Ticket[] }

/** What is open by urgency and then by age; what is over, newest first. */
export function ticketColumns(tickets: readonly Ticket[], search: BoardSearch): TicketColumn[] {
  const fitting = tickets.filter(
    (ticket) =>
      (search.priority === undefined || ticket.priority === search.priority) &&
      matchesWords(`#${ticket.number} ${ticket.title} ${ticket.id} ${ticket.ticket_type}`, search.q),
  )
  const columns = TICKET_STATUSES.filter((status) => status !== 'cancelled' || search.cancelled)
  return columns.map((status) => {
    const isOver = status === 'done' || status === 'cancelled'
    const order = (a: Ticket, b: Ticket) =>
      isOver ? b.updated_at.localeCompare(a.updated_at) : PRIORITIES.indexOf(a.priority) - PRIORITIES.indexOf(b.priority) || a.number - b.number
    return { status, tickets: fitting.filter((ticket) => ticket.status === status).toSorted(order) }
  })
}
