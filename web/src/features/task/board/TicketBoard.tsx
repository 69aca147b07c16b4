import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { asProblem } from '../../../api/problem'
import { useSession } from '../../../api/session'
import type { Ticket } from '../../../api/types'
import { useKeys } from '../../../app/keys'
import { tell } from '../../../app/toast'
import { count } from '../../../ui/amount'
import { Button } from '../../../ui/Button'
import { Page } from '../../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../../ui/panels'
import { oneLine } from '../../../ui/plain'
import { ticketChange, ticketList } from '../queries'
import { useTaskStream } from '../useTaskStream'
import { Filters } from './Filters'
import { step } from './focus'
import { Cards, Frame } from './Frame'
import { isSearching, type BoardSearch } from './search'
import { TicketCard } from './TicketCard'
import { TICKET_WORDS, ticketColumns, ticketMoves, ticketMoveWords, type TicketMove } from './tickets'

type Props = { search: BoardSearch; onSearch: (change: BoardSearch) => void }

/** Every ticket by its state. */
export function TicketBoard({ search, onSearch }: Props) {
  const list = useQuery(ticketList(search.project))
  const [dragged, setDragged] = useState<Ticket>()
  const moves = useTicketMoves()
  useTaskStream(() => false)
  useKeys({ j: () => step('down'), k: () => step('up'), '/': () => document.getElementById('board-find')?.focus() })
  const columns = ticketColumns(list.data ?? [], search)
  const shown = columns.reduce((sum, { tickets }) => sum + tickets.length, 0)
  const isFiltered = isSearching(search) || search.project !== undefined
  const put = (ticket: Ticket, move: TicketMove) => {
    setDragged(undefined)
    moves.begin(ticket, move)
  }
  return (
    <Page
      title="Board"
      aside={
        <>
          <span className="text-muted tabular-nums">{list.data && count(shown, 'ticket')}</span>
          <Filters search={search} onSearch={onSearch} />
        </>
      }
    >
      {list.isPending && <Skeleton rows={8} label="Loading tickets" />}
      {list.error && <ErrorPanel error={list.error} onRetry={() => void list.refetch()} />}
      {moves.error && <ErrorPanel error={moves.error} />}
      {list.data?.length === 0 && (
        <Empty title={isFiltered ? 'No ticket fits the filter.' : 'No ticket yet.'}>
          {isFiltered ? (
            <Button onClick={() => onSearch({ q: undefined, priority: undefined, project: undefined })}>Show all tickets</Button>
          ) : (
            <p>A ticket holds tasks that belong together. Specs make them, and so does the API.</p>
          )}
        </Empty>
      )}
      {list.data && list.data.length > 0 && (
        <div className="flex h-full min-h-80 snap-x gap-2 overflow-x-auto p-2 md:snap-none">
          {columns.map(({ status, tickets }) => (
            <Frame
              key={status}
              name={status}
              title={<span className="text-xs font-medium">{TICKET_WORDS[status]}</span>}
              count={String(tickets.length)}
              onTake={dragged && dragged.status !== status ? () => put(dragged, { kind: 'status', to: status }) : undefined}
            >
              {tickets.length === 0 && <p className="px-2 py-1 text-xs text-muted">{isFiltered ? 'Nothing fits the filter.' : 'No ticket.'}</p>}
              <Cards
                label={`${TICKET_WORDS[status]} tickets`}
                cards={tickets}
                render={(ticket) => (
                  <TicketCard
                    ticket={ticket}
                    isBusy={moves.busyId === ticket.id}
                    items={
                      moves.canMove
                        ? ticketMoves(ticket).map((move) => ({ label: ticketMoveWords(move), onChoose: () => moves.begin(ticket, move) }))
                        : []
                    }
                    onOpen={() => onSearch({ view: undefined, ticket: ticket.id })}
                    onDrag={moves.canMove ? setDragged : undefined}
                  />
                )}
              />
            </Frame>
          ))}
        </div>
      )}
    </Page>
  )
}

/** Changes tickets as a person wants it, and tells how to take it back. */
function useTicketMoves() {
  const who = useSession()
  const queries = useQueryClient()
  const settle = () => queries.invalidateQueries({ queryKey: ['tickets'] })
  const change = useMutation({
    mutationFn: ({ ticket, move }: { ticket: Ticket; move: TicketMove }) => ticketChange(ticket.id, { [move.kind]: move.to }),
    onSuccess: (_done, { ticket, move }) => {
      const words = move.kind === 'status' ? `is ${TICKET_WORDS[move.to].toLowerCase()} now` : `is of ${move.to.toLowerCase()} priority now`
      tell({
        words: `#${ticket.number} “${oneLine(ticket.title, 60)}” ${words}.`,
        undo: () => ticketChange(ticket.id, { [move.kind]: ticket[move.kind] }).finally(settle),
      })
    },
    onSettled: settle,
  })
  return {
    canMove: who?.role !== 'viewer',
    busyId: change.isPending ? change.variables.ticket.id : undefined,
    error: change.error ? asProblem(change.error) : undefined,
    begin: (ticket: Ticket, move: TicketMove) => {
      if (!change.isPending) change.mutate({ ticket, move })
    },
  }
}
