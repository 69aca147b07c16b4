import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo, useState, type KeyboardEvent } from 'react'
import type { Task, Ticket } from '../../../api/types'
import { useActs } from '../../../app/acts'
import { useKeys } from '../../../app/keys'
import { count } from '../../../ui/amount'
import { Button } from '../../../ui/Button'
import { Page } from '../../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../../ui/panels'
import { oneLine } from '../../../ui/plain'
import { moveBy, movesOf, type Move } from '../moves'
import { taskPages, ticketList } from '../queries'
import { TaskDrawer } from '../TaskDrawer'
import { useMoves } from '../useMoves'
import { useTaskStream } from '../useTaskStream'
import { isNeeding } from '../note'
import { useColumn, type Column } from './columns'
import { ColumnView } from './ColumnView'
import { Filters } from './Filters'
import { step } from './focus'
import { isSearching, matches, type BoardSearch } from './search'
import { TaskCard } from './TaskCard'
import { TaskTable } from './TaskTable'
import { TicketBoard } from './TicketBoard'

const LIST = 100
/** What is looked for is looked for in more. */
const SEARCHED = 500
/** As many sandboxes as one page asks after. */
const ACTS_MAX = 50

type Props = { search: BoardSearch; onSearch: (change: BoardSearch) => void }

export function BoardPage(props: Props) {
  return props.search.view === 'tickets' ? <TicketBoard {...props} /> : <TaskBoard {...props} />
}

/** Every task by its state, on columns or in a table. */
function TaskBoard({ search, onSearch }: Props) {
  const isList = search.view === 'list'
  const columns = useColumns(search, !isList)
  const list = useList(search, isList)
  const tickets = useTickets(search.project)
  const moves = useMoves()

  const loaded = isList ? list.loaded : columns.flatMap((column) => column.loaded)
  const known = new Map(loaded.map((task) => [task.id, task]))
  const working = loaded.filter(({ status, sandbox_id }) => status === 'running' && sandbox_id)
  const [acts, hear] = useActs(working.slice(0, ACTS_MAX).map((task) => task.sandbox_id ?? ''))
  useTaskStream(hear)

  const actOf = (task: Task) => acts.get(task.sandbox_id ?? '')
  const hidden = loaded.filter((task) => !matches(task, search) && isNeeding(task, actOf(task)))
  const shown = isList ? list.tasks.length : columns.reduce((sum, column) => sum + column.tasks.length, 0)
  const hasMore = isList ? list.hasMore : columns.some((column) => column.hasMore)
  const isLoading = isList ? list.isPending : columns.some((column) => column.isPending)
  const isEmpty = !isLoading && loaded.length === 0 && !(isList ? list.error : columns.some((column) => column.error))
  const open = (task: string) => onSearch({ task })
  const close = () => onSearch({ task: undefined })
  const begin = (task: Task | undefined, move: Move | undefined) => task && moves.begin(task, move)
  const onKey = useBoardKeys((id) => known.get(id), begin, open, search.task === undefined ? undefined : close)
  const isFiltered = isSearching(search) || search.project !== undefined || search.ticket !== undefined || (isList && search.status !== undefined)
  const clear = () => onSearch({ q: undefined, priority: undefined, project: undefined, ticket: undefined, status: undefined })

  return (
    <div className="relative flex min-h-0 flex-1 flex-col">
      <Page
        title="Board"
        aside={
          <>
            <span className="text-muted tabular-nums">
              {isLoading ? '' : `${count(shown, 'task')}${hasMore ? ', and more' : ''}`}
            </span>
            <Filters search={search} onSearch={onSearch} />
          </>
        }
      >
        {moves.view}
        {search.ticket && <TicketLine ticket={tickets.get(search.ticket)} onClear={() => onSearch({ ticket: undefined })} />}
        {hidden.length > 0 && <Hidden tasks={hidden} onOpen={open} onClear={clear} />}
        {isEmpty && !isFiltered && <NoTasks />}
        {isEmpty && isFiltered && (
          <Empty title="No task fits the filter.">
            <Button onClick={clear}>Show all tasks</Button>
          </Empty>
        )}
        {isList && !isEmpty && (
          <>
            {list.isPending && <Skeleton rows={8} label="Loading tasks" />}
            {list.error && <ErrorPanel error={list.error} onRetry={list.retry} />}
            {list.tasks.length > 0 ? (
              <TaskTable
                tasks={list.tasks}
                tickets={tickets}
                known={known}
                acts={acts}
                itemsOf={moves.itemsOf}
                onOpen={open}
                hasMore={list.hasMore}
                isLoadingMore={list.isLoadingMore}
                onMore={list.more}
              />
            ) : (
              list.loaded.length > 0 && (
                <Empty title={list.hasMore ? `None of the newest ${list.loaded.length} tasks fits the filter.` : 'No task fits the filter.'}>
                  <span className="flex gap-2">
                    {list.hasMore && (
                      <Button disabled={list.isLoadingMore} onClick={list.more}>
                        {list.isLoadingMore ? 'Looking…' : 'Look further back'}
                      </Button>
                    )}
                    <Button onClick={clear}>Show all tasks</Button>
                  </span>
                </Empty>
              )
            )}
          </>
        )}
        {!isList && !isEmpty && (
          <Columns
            columns={columns}
            search={search}
            moves={moves}
            tickets={tickets}
            known={known}
            acts={acts}
            onOpen={open}
            onTicket={(ticket) => onSearch({ ticket })}
            onKey={onKey}
          />
        )}
      </Page>
      {search.task && (
        <TaskDrawer key={search.task} id={search.task} known={known} acts={acts} moves={moves} onClose={close} />
      )}
    </div>
  )
}

type ColumnsProps = {
  columns: Column[]
  search: BoardSearch
  moves: ReturnType<typeof useMoves>
  tickets: ReadonlyMap<string, Ticket>
  known: ReadonlyMap<string, Task>
  acts: ReturnType<typeof useActs>[0]
  onOpen: (id: string) => void
  onTicket: (id: string) => void
  onKey: (event: KeyboardEvent) => void
}

function Columns({ columns, search, moves, tickets, known, acts, onOpen, onTicket, onKey }: ColumnsProps) {
  const [dragged, setDragged] = useState<Task>()
  return (
    // oxlint-disable-next-line jsx-a11y/no-static-element-interactions -- keys of the cards, which take the focus
    <div onKeyDown={onKey} className={`flex h-full min-h-80 snap-x gap-2 overflow-x-auto p-2 md:snap-none ${search.task ? 'lg:pr-142' : ''}`}>
      {columns.map((column) => (
        <ColumnView
          key={column.status}
          column={column}
          isSearch={isSearching(search)}
          project={search.project}
          dragged={dragged}
          onMove={(task, move) => {
            setDragged(undefined)
            moves.begin(task, move)
          }}
          renderCard={(task) => (
            <TaskCard
              task={task}
              ticket={tickets.get(task.ticket_id ?? '')}
              known={known}
              act={acts.get(task.sandbox_id ?? '')}
              isOpen={search.task === task.id}
              isBusy={moves.busyId === task.id}
              items={moves.itemsOf(task)}
              onOpen={onOpen}
              onTicket={onTicket}
              onDrag={moves.canMove && movesOf(task).length > 0 ? setDragged : undefined}
            />
          )}
        />
      ))}
    </div>
  )
}

/** What waits for a person is never out of sight because of what somebody looks for. */
function Hidden({ tasks, onOpen, onClear }: { tasks: Task[]; onOpen: (id: string) => void; onClear: () => void }) {
  const [first] = tasks
  return (
    <p role="status" className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b border-line bg-warn-soft px-4 py-1 text-warn">
      {tasks.length === 1 ? 'One task that waits for you does' : `${tasks.length} tasks that wait for you do`} not fit the filter:
      {first && (
        <button type="button" onClick={() => onOpen(first.id)} className="untrusted min-h-6 cursor-pointer text-left underline">
          {oneLine(first.title, 80)}
        </button>
      )}
      <button type="button" onClick={onClear} className="min-h-6 cursor-pointer underline">
        {tasks.length === 1 ? 'Clear the filter' : 'Show all'}
      </button>
    </p>
  )
}

function TicketLine({ ticket, onClear }: { ticket: Ticket | undefined; onClear: () => void }) {
  return (
    <p className="flex flex-wrap items-center gap-x-3 border-b border-line px-4 py-1 text-muted">
      <span className="untrusted">
        Ticket {ticket ? `#${ticket.number}, ${oneLine(ticket.title, 120)}, ${ticket.status}` : 'chosen'}
      </span>
      {ticket && (
        <Link to="/graph" search={{ scope: 'ticket', id: ticket.id }} className="min-h-6 text-accent underline">
          Its graph
        </Link>
      )}
      <button type="button" onClick={onClear} className="min-h-6 cursor-pointer text-accent underline">
        All tickets
      </button>
    </p>
  )
}

function NoTasks() {
  return (
    <Empty title="No task yet.">
      <p>Every task stands here by its state, from the moment it is made.</p>
      <Link to="/sandboxes/new" className="text-accent underline">
        Start the first one
      </Link>
    </Empty>
  )
}

function useColumns(search: BoardSearch, isShown: boolean): Column[] {
  const columns = [
    useColumn('pending', search, isShown),
    useColumn('assigned', search, isShown),
    useColumn('running', search, isShown),
    useColumn('completed', search, isShown),
    useColumn('failed', search, isShown),
    useColumn('cancelled', search, isShown && search.cancelled === true),
  ]
  return search.cancelled ? columns : columns.slice(0, -1)
}

function useList(search: BoardSearch, isShown: boolean) {
  const { project, ticket, status } = search
  const filter = { ...(status && { status }), ...(project && { project }), ...(ticket && { ticket }) }
  const query = useInfiniteQuery({ ...taskPages(filter, isSearching(search) ? SEARCHED : LIST), enabled: isShown })
  const all = query.data?.pages.flatMap(({ items }) => items) ?? []
  const loaded = [...new Map(all.map((task) => [task.id, task])).values()]
  return {
    loaded,
    tasks: loaded.filter((task) => matches(task, search)),
    isPending: query.isPending,
    error: query.error,
    retry: () => void query.refetch(),
    hasMore: query.hasNextPage,
    isLoadingMore: query.isFetchingNextPage,
    more: () => void query.fetchNextPage(),
  }
}

function useTickets(project: string | undefined): ReadonlyMap<string, Ticket> {
  const { data } = useQuery(ticketList(project))
  return useMemo(() => new Map((data ?? []).map((ticket) => [ticket.id, ticket])), [data])
}

/** Keys of the card that has the focus, and those that find one. */
function useBoardKeys(
  taskOf: (id: string) => Task | undefined,
  begin: (task: Task | undefined, move: Move | undefined) => void,
  onOpen: (id: string) => void,
  onClose: (() => void) | undefined,
) {
  useKeys({
    j: () => step('down'),
    k: () => step('up'),
    '/': () => document.getElementById('board-find')?.focus(),
    ...(onClose && { Escape: onClose }),
  })
  return (event: KeyboardEvent) => {
    const card = event.target instanceof Element ? event.target.closest('[data-task]') : null
    const task = taskOf(card?.getAttribute('data-task') ?? '')
    if (!task || event.ctrlKey || event.metaKey || event.altKey) return
    const does = (kind: Move['kind']) => () => begin(task, movesOf(task).find((move) => move.kind === kind))
    const keys: Record<string, () => void> = {
      ArrowDown: () => step('down'),
      ArrowUp: () => step('up'),
      ArrowLeft: () => step('left'),
      ArrowRight: () => step('right'),
      o: () => onOpen(task.id),
      s: does('start'),
      r: does('retry'),
      Delete: does('cancel'),
      '+': () => begin(task, moveBy(task, 1)),
      '-': () => begin(task, moveBy(task, -1)),
    }
    const action = keys[event.key]
    if (!action) return
    event.preventDefault()
    action()
  }
}
