import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { ArrowDown, ArrowUp } from 'lucide-react'
import { useMemo, useRef, useState, type ReactNode } from 'react'
import { useSession } from '../../api/session'
import type { Sandbox } from '../../api/types'
import { useKeys } from '../../app/keys'
import { useLive, useRefetch } from '../../app/live'
import { endedWords } from '../../parts/ended'
import { usd } from '../../ui/amount'
import { Button } from '../../ui/Button'
import { Chips } from '../../ui/Chips'
import { copy } from '../../ui/Copy'
import { Menu } from '../../ui/Menu'
import { More } from '../../ui/More'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { nameOf, oneLine, shortId } from '../../ui/plain'
import { State } from '../../ui/State'
import { Ago, Beat } from '../../ui/Time'
import { commandFor, Interrupt, Stop } from './Actions'
import { countsOf, isAlive, shownOf, STATE_FILTERS, type ListSearch, type Sort, type Titled } from './list'
import { beat, BEAT_MS, HEARTBEATS, sandboxList, taskTitles } from './queries'

/** What changes a row. The rest of what agents report, most of the stream, is for the page of one sandbox. */
const CHANGES = {
  eventTypes: [
    ...HEARTBEATS,
    'SANDBOX_ATTACHED',
    'SANDBOX_ENDED',
    'SANDBOX_RETURNED',
    'SANDBOX_SPAWNED',
    'SANDBOX_sandbox.booting',
    'SANDBOX_agent.started',
    'TASK_ASSIGNED',
  ],
}
const TITLE_CHARS = 140

type Props = { search: ListSearch; onSearch: (change: ListSearch) => void }

export function SandboxListPage({ search, onSearch }: Props) {
  const list = useInfiniteQuery(sandboxList())
  const tasks = useQuery(taskTitles())
  const queries = useQueryClient()
  const refetch = useRefetch(['sandboxes'], taskTitles().queryKey)
  const rows = useMemo(() => {
    const titles = new Map(tasks.data?.map(({ id, title }) => [id, title]))
    const sandboxes = list.data?.pages.flatMap((page) => page.items) ?? []
    return sandboxes.map((sandbox): Titled => ({ sandbox, title: sandbox.task_id ? titles.get(sandbox.task_id) : undefined }))
  }, [list.data, tasks.data])
  useLive(CHANGES, (event) => {
    if (event === 'connected' || !HEARTBEATS.includes(event.event_type)) return refetch()
    const known = rows.find(({ sandbox }) => sandbox.id === event.entity_id)
    if (known?.sandbox.status === 'running') queries.setQueryData(sandboxList().queryKey, (data) => beat(data, event))
    else refetch()
  })
  const shown = useOrder(rows, search)
  const isFiltered = Boolean(search.state ?? search.provider ?? search.q)

  return (
    <Page title="Sandboxes">
      {list.isPending && <Skeleton rows={6} label="Loading sandboxes" />}
      {list.error && <ErrorPanel error={list.error} onRetry={() => void list.refetch()} />}
      {rows.length > 0 && <Filters rows={rows} hasMore={list.hasNextPage} search={search} onSearch={onSearch} />}
      {list.data && shown.length === 0 && (
        <Empty title={isFiltered && rows.length > 0 ? 'No sandbox is like that.' : 'No sandbox yet.'}>
          {isFiltered && rows.length > 0 ? (
            <Button onClick={() => onSearch({ state: undefined, provider: undefined, q: undefined })}>Show all sandboxes</Button>
          ) : (
            <p>One appears here as soon as an agent claims a task or a sandbox is attached.</p>
          )}
        </Empty>
      )}
      {shown.length > 0 && (
        <table className="w-full text-left">
          <thead className="text-2xs text-subtle">
            <tr className="h-7 border-b border-line">
              <Column of="state" search={search} onSearch={onSearch} className="pl-4">
                State
              </Column>
              <Column of="task" search={search} onSearch={onSearch}>
                Task
              </Column>
              <th className="hidden px-2 font-medium lg:table-cell">Branch</th>
              <th className="hidden px-2 font-medium lg:table-cell">Provider</th>
              <Column of="heartbeat" search={search} onSearch={onSearch}>
                Heartbeat or end
              </Column>
              <Column of="cost" search={search} onSearch={onSearch} className="hidden md:table-cell">
                Cost
              </Column>
              <Column of="created" search={search} onSearch={onSearch} className="hidden md:table-cell">
                Created
              </Column>
              <th className="px-2 font-medium">
                <span className="sr-only">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <Row key={row.sandbox.id} row={row} />
            ))}
          </tbody>
        </table>
      )}
      <More list={list} />
    </Page>
  )
}

/** Rows change where they are: their order is worked out anew when others come or something else is asked for. */
function useOrder(rows: readonly Titled[], search: ListSearch): Titled[] {
  const present = rows.map(({ sandbox }) => `${sandbox.id} ${sandbox.status}`).join()
  const asked = JSON.stringify(search)
  const order = useMemo(
    () => shownOf(rows, search).map(({ sandbox }) => sandbox.id),
    // oxlint-disable-next-line react/exhaustive-deps -- a heartbeat or a cost moves no row
    [present, asked],
  )
  const byId = new Map(rows.map((row) => [row.sandbox.id, row]))
  return order.flatMap((id) => byId.get(id) ?? [])
}

type FiltersProps = Props & { rows: readonly Titled[]; hasMore: boolean }

function Filters({ rows, hasMore, search, onSearch }: FiltersProps) {
  const find = useRef<HTMLInputElement>(null)
  useKeys({ '/': () => find.current?.focus() })
  const counts = countsOf(rows, search)
  const providers = [...new Set(rows.map(({ sandbox }) => sandbox.provider))].toSorted()
  const chips = STATE_FILTERS.filter((state) => state === 'all' || state === 'live' || counts[state] > 0 || state === search.state)
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-2 border-b border-line px-4 py-2">
      <Chips
        label="State"
        chips={chips.map((id) => ({ id, label: id, count: `${counts[id]}${hasMore && id !== 'live' ? '+' : ''}` }))}
        chosen={search.state ?? 'all'}
        onChoose={(state) => onSearch({ state: state === 'all' ? undefined : state })}
      />
      {(providers.length > 1 || search.provider) && (
        <label className="flex items-center gap-2 text-xs text-muted">
          Provider
          <select
            value={search.provider ?? ''}
            onChange={(event) => onSearch({ provider: event.target.value || undefined })}
            className="h-7 rounded border border-line-strong bg-surface px-1 text-fg"
          >
            <option value="">any</option>
            {providers.map((provider) => (
              <option key={provider}>{provider}</option>
            ))}
          </select>
        </label>
      )}
      <input
        ref={find}
        type="search"
        aria-label="Find by task, branch or id"
        placeholder="Find by task, branch or id"
        value={search.q ?? ''}
        onChange={(event) => onSearch({ q: event.target.value || undefined })}
        className="h-7 w-56 max-w-full rounded border border-line-strong bg-sunken px-2 placeholder:text-subtle"
      />
      {hasMore && <span className="text-xs text-muted">among the newest {rows.length}</span>}
    </div>
  )
}

type ColumnProps = Props & { of: Sort; className?: string; children: ReactNode }

/** A heading that sorts; once more turns the order round. */
function Column({ of, search, onSearch, className = '', children }: ColumnProps) {
  const sort = search.sort ?? 'created'
  const isDown = sort === of
  const isUp = sort === `-${of}`
  const Icon = isUp ? ArrowUp : ArrowDown
  return (
    <th aria-sort={isDown ? 'descending' : isUp ? 'ascending' : undefined} className={`px-2 font-medium ${className}`}>
      <button
        type="button"
        onClick={() => onSearch({ sort: isDown ? `-${of}` : of })}
        className="inline-flex min-h-6 cursor-pointer items-center gap-1 hover:text-fg hover:underline"
      >
        {children}
        {(isDown || isUp) && <Icon size={11} aria-hidden />}
      </button>
    </th>
  )
}

function Row({ row: { sandbox, title } }: { row: Titled }) {
  const isOver = Boolean(sandbox.ended_at)
  return (
    <tr className="h-8 border-b border-line hover:bg-raised">
      <td className="pr-2 pl-4">
        <State state={sandbox.status} />
      </td>
      <td className="max-w-120 px-2 py-0.5">
        <Link to="/sandboxes/$id" params={{ id: sandbox.id }} title={sandbox.id} className="inline-flex min-h-6 max-w-full flex-wrap items-center gap-x-2 text-accent hover:underline">
          {title && <span className="untrusted min-w-0">{oneLine(title, TITLE_CHARS)}</span>}
          <span className={`font-mono text-xs ${title ? 'hidden text-muted md:inline' : ''}`}>{shortId(sandbox.id)}</span>
        </Link>
        {sandbox.stage === 'check' && <span className="ml-2 text-xs text-muted">checks</span>}
      </td>
      <td className="hidden max-w-60 truncate px-2 font-mono text-xs text-muted lg:table-cell">{sandbox.branch_name ? nameOf(sandbox.branch_name) : '–'}</td>
      <td className="hidden px-2 text-muted lg:table-cell">{sandbox.provider}</td>
      <td className="px-2 text-muted">
        {isOver ? (
          <span>
            {oneLine(endedWords(sandbox.end_reason ?? 'ended'), 60)} <Ago at={sandbox.ended_at} />
          </span>
        ) : (
          <Beat at={sandbox.last_heartbeat_at} everyMs={BEAT_MS} />
        )}
      </td>
      <td className="hidden px-2 text-muted tabular-nums md:table-cell">{usd(sandbox.cost_usd ?? 0)}</td>
      <td className="hidden px-2 text-muted md:table-cell">
        <Ago at={sandbox.created_at} />
      </td>
      <td className="px-2 text-right">
        <RowMenu sandbox={sandbox} />
      </td>
    </tr>
  )
}

function RowMenu({ sandbox }: { sandbox: Sandbox }) {
  const who = useSession()
  const navigate = useNavigate()
  const [asking, setAsking] = useState<'interrupt' | 'stop'>()
  const { id, task_id } = sandbox
  const open = (hash?: string) => void navigate({ to: '/sandboxes/$id', params: { id }, ...(hash && { hash }) })
  const mayAct = who?.role !== 'viewer' && isAlive(sandbox)
  return (
    <>
      <Menu
        label={`Actions for ${shortId(id)}`}
        items={[
          { label: 'Open', onChoose: () => open() },
          ...(task_id ? [{ label: 'Open its task', onChoose: () => void navigate({ to: '/tasks/$id', params: { id: task_id } }) }] : []),
          ...(mayAct
            ? [
                { label: 'Message', onChoose: () => open('message') },
                { label: 'Interrupt', onChoose: () => setAsking('interrupt') },
                { label: 'Stop', tone: 'bad' as const, onChoose: () => setAsking('stop') },
              ]
            : []),
          { label: 'Copy the id', onChoose: () => void copy(id) },
          { label: 'Copy the CLI command', onChoose: () => void copy(commandFor(id)) },
        ]}
      />
      {asking === 'interrupt' && <Interrupt sandbox={sandbox} onClose={() => setAsking(undefined)} />}
      {asking === 'stop' && <Stop sandbox={sandbox} onClose={() => setAsking(undefined)} />}
    </>
  )
}
