import { Link } from '@tanstack/react-router'
import type { Task, Ticket } from '../../../api/types'
import type { Doing } from '../../../live/doing'
import { usd } from '../../../ui/amount'
import { Button } from '../../../ui/Button'
import { Menu, type MenuItem } from '../../../ui/Menu'
import { oneLine, shortId } from '../../../ui/plain'
import { State } from '../../../ui/State'
import { Table, type Heading } from '../../../ui/Table'
import { Ago } from '../../../ui/Time'
import { NoteLine } from '../NoteLine'
import { PriorityWord } from '../PriorityWord'
import { noteOf, type Known } from '../note'

const HEADINGS: Heading[] = [
  { label: 'State' },
  { label: 'Task' },
  { label: 'Priority', from: 'md' },
  { label: 'Sandbox', from: 'md' },
  { label: 'Retries', from: 'lg' },
  { label: 'Cost', from: 'lg', isRight: true },
  { label: 'Changed', from: 'md' },
  { label: 'Actions', isHidden: true },
]

type Props = {
  tasks: readonly Task[]
  tickets: ReadonlyMap<string, Ticket>
  known: Known
  acts: ReadonlyMap<string, Doing>
  itemsOf: (task: Task) => readonly MenuItem[]
  onOpen: (id: string) => void
  hasMore: boolean
  isLoadingMore: boolean
  onMore: () => void
}

/** The same as the board, as a table: newest first. */
export function TaskTable({ tasks, tickets, known, acts, itemsOf, onOpen, hasMore, isLoadingMore, onMore }: Props) {
  return (
    <>
      <Table headings={HEADINGS}>
        {tasks.map((task) => (
          <Row
            key={task.id}
            task={task}
            ticket={tickets.get(task.ticket_id ?? '')}
            known={known}
            act={acts.get(task.sandbox_id ?? '')}
            items={itemsOf(task)}
            onOpen={onOpen}
          />
        ))}
      </Table>
      {hasMore && (
        <div className="p-3">
          <Button disabled={isLoadingMore} onClick={onMore}>
            {isLoadingMore ? 'Loading…' : 'Show more'}
          </Button>
        </div>
      )}
    </>
  )
}

type RowProps = {
  task: Task
  ticket: Ticket | undefined
  known: Known
  act: Doing | undefined
  items: readonly MenuItem[]
  onOpen: (id: string) => void
}

function Row({ task, ticket, known, act, items, onOpen }: RowProps) {
  const note = noteOf(task, known, act, undefined)
  const sandbox = task.sandbox_id && (
    <Link
      to="/sandboxes/$id"
      params={{ id: task.sandbox_id }}
      title={task.sandbox_id}
      className="inline-flex min-h-6 items-center font-mono text-xs text-accent hover:underline"
    >
      {shortId(task.sandbox_id)}
    </Link>
  )
  return (
    <tr data-task={task.id} className="border-b border-line align-top hover:bg-raised">
      <td className="px-4 py-1.5">
        <State state={task.status} />
      </td>
      <td className="px-2 py-1.5">
        <Link
          to="/tasks/$id"
          params={{ id: task.id }}
          onClick={(event) => {
            if (event.detail === 0 || event.ctrlKey || event.metaKey || event.shiftKey) return
            event.preventDefault()
            onOpen(task.id)
          }}
          className="untrusted hover:underline"
        >
          {ticket && <span className="mr-1.5 font-mono text-xs text-subtle">#{ticket.number}</span>}
          {oneLine(task.title, 500)}
        </Link>
        {note && <NoteLine note={note} />}
        <p className="md:hidden">{sandbox}</p>
      </td>
      <td className="hidden px-2 py-1.5 md:table-cell">
        <PriorityWord priority={task.priority} />
      </td>
      <td className="hidden px-2 py-1 md:table-cell">{sandbox || <span className="text-subtle">–</span>}</td>
      <td className="hidden px-2 py-1.5 text-muted tabular-nums lg:table-cell">
        {task.retry_count} of {task.max_retries}
      </td>
      <td className="hidden px-2 py-1.5 text-right text-muted tabular-nums lg:table-cell">{usd(task.cost_usd ?? 0)}</td>
      <td className="hidden px-2 py-1.5 text-muted md:table-cell">
        <Ago at={task.updated_at} />
      </td>
      <td className="px-2 py-1">{items.length > 0 && <Menu label={`Actions for ${oneLine(task.title, 60)}`} items={items} />}</td>
    </tr>
  )
}
