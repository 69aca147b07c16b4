import { useQuery } from '@tanstack/react-query'
import { Columns3, List, Ticket } from 'lucide-react'
import { useEffect, useRef } from 'react'
import { nameOf } from '../../../ui/plain'
import { PRIORITIES } from '../moves'
import { projectChoice } from '../queries'
import { asTaskStatus, TASK_STATUSES } from '../status'
import type { BoardSearch } from './search'

const SELECT = 'h-7 max-w-32 rounded md:max-w-44 border border-line-strong bg-surface px-1 text-fg'
const TYPING_MS = 200

type Props = { search: BoardSearch; onSearch: (change: BoardSearch) => void }

export function Filters({ search, onSearch }: Props) {
  const projects = useQuery(projectChoice())
  const isList = search.view === 'list'
  return (
    <div role="search" className="flex flex-1 basis-full flex-wrap items-center gap-2 md:basis-0">
      <Find label={search.view === 'tickets' ? 'Find tickets' : 'Find tasks'} q={search.q} onFind={(q) => onSearch({ q: q || undefined })} />
      <select
        aria-label="Project"
        value={search.project ?? ''}
        onChange={(event) => onSearch({ project: event.target.value || undefined, ticket: undefined })}
        className={SELECT}
      >
        <option value="">All projects</option>
        {projects.data?.items.map(({ id, name }) => (
          <option key={id} value={id}>
            {nameOf(name)}
          </option>
        ))}
      </select>
      <select
        aria-label="Priority"
        value={search.priority ?? ''}
        onChange={(event) => onSearch({ priority: PRIORITIES.find((one) => one === event.target.value) })}
        className={SELECT}
      >
        <option value="">Any priority</option>
        {PRIORITIES.map((priority) => (
          <option key={priority} value={priority}>
            {priority.toLowerCase()}
          </option>
        ))}
      </select>
      {isList ? (
        <select
          aria-label="State"
          value={search.status ?? ''}
          onChange={(event) => onSearch({ status: asTaskStatus(event.target.value) })}
          className={SELECT}
        >
          <option value="">Any state</option>
          {TASK_STATUSES.map((word) => (
            <option key={word}>{word}</option>
          ))}
        </select>
      ) : (
        <label className="flex min-h-7 items-center gap-1.5 text-muted">
          <input
            type="checkbox"
            checked={search.cancelled ?? false}
            onChange={(event) => onSearch({ cancelled: event.target.checked || undefined })}
            className="size-4 accent-(--accent)"
          />
          Cancelled
        </label>
      )}
      <span className="flex-1" />
      <fieldset className="flex rounded border border-line-strong">
        <legend className="sr-only">View</legend>
        <ViewButton label="Board" icon={Columns3} isChosen={search.view === undefined} onChoose={() => onSearch({ view: undefined })} />
        <ViewButton label="List" icon={List} isChosen={isList} onChoose={() => onSearch({ view: 'list' })} />
        <ViewButton
          label="Tickets"
          icon={Ticket}
          isChosen={search.view === 'tickets'}
          onChoose={() => onSearch({ view: 'tickets', ticket: undefined, task: undefined })}
        />
      </fieldset>
    </div>
  )
}

type ViewProps = { label: string; icon: typeof List; isChosen: boolean; onChoose: () => void }

function ViewButton({ label, icon: Icon, isChosen, onChoose }: ViewProps) {
  return (
    <button
      type="button"
      aria-pressed={isChosen}
      onClick={onChoose}
      className="inline-flex min-h-6.5 cursor-pointer items-center gap-1.5 px-2 text-muted hover:text-fg aria-pressed:bg-sunken aria-pressed:font-medium aria-pressed:text-fg"
    >
      <Icon size={14} aria-hidden />
      {label}
    </button>
  )
}

/** What is typed is looked for once the fingers rest. */
function Find({ label, q, onFind }: { label: string; q: string | undefined; onFind: (q: string) => void }) {
  const input = useRef<HTMLInputElement>(null)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  useEffect(() => {
    // Somebody else changed the address; what is being typed is left alone.
    if (input.current && document.activeElement !== input.current) input.current.value = q ?? ''
  }, [q])
  return (
    <input
      ref={input}
      id="board-find"
      type="search"
      aria-label={label}
      placeholder="Find /"
      defaultValue={q ?? ''}
      autoComplete="off"
      spellCheck={false}
      onChange={(event) => {
        const { value } = event.target
        clearTimeout(timer.current)
        timer.current = setTimeout(() => onFind(value.trim()), TYPING_MS)
      }}
      className="h-7 w-32 rounded border border-line-strong md:w-40 bg-sunken px-2 text-fg placeholder:text-subtle"
    />
  )
}
