import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { startTransition, useCallback, useEffect, useMemo, useRef, useState, type ReactNode } from 'react'
import { openStream } from '../../api/client'
import { Problem } from '../../api/problem'
import type { Sandbox, Task } from '../../api/types'
import { useKeys } from '../../app/keys'
import { overhear, setConnection, useRefetch } from '../../app/live'
import { foldFacts, foldFiles } from '../../live/facts'
import { Feed, type FeedView } from '../../live/feed'
import type { LogEvent } from '../../live/log'
import { Rows } from '../../live/rows'
import type { DiffHandle } from '../../ui/DiffView'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { oneLine } from '../../ui/plain'
import { Tabs, type TabItem } from '../../ui/Tabs'
import { useIsWide } from '../../ui/wide'
import { Changes } from '../../parts/Changes'
import { Activity } from './Activity'
import { DetailsTab } from './DetailsTab'
import { Head } from './Head'
import { MessageBox } from './MessageBox'
import { Outcome } from './Outcome'
import { applyLive, eventHistory, sandboxCosts, sandboxOne, sandboxTask } from './queries'
import { Replay } from './Replay'
import type { Kind, SandboxSearch, Tab } from './search'
import { Summary } from './Summary'
import { TerminalTab } from './TerminalTab'
import { useFold } from './useFold'

const TITLE_CHARS = 120

type Props = { id: string; search: SandboxSearch; onSearch: (change: SandboxSearch) => void }

export function SandboxPage({ id, search, onSearch }: Props) {
  const sandbox = useQuery(sandboxOne(id))
  const task = useQuery(sandboxTask(id))
  const title = task.data ? oneLine(task.data.title, TITLE_CHARS) : oneLine(id, TITLE_CHARS)

  useEffect(() => {
    document.title = `${sandbox.data ? `${sandbox.data.status} · ` : ''}${title} · Omoi`
  }, [sandbox.data, title])

  if (sandbox.error instanceof Problem && sandbox.error.status === 404) {
    return (
      <Page title="No such sandbox">
        <Empty title={`There is no sandbox ${oneLine(id, TITLE_CHARS)}.`}>
          <Link to="/sandboxes" className="text-accent underline">
            All sandboxes
          </Link>
        </Empty>
      </Page>
    )
  }
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      {sandbox.error && <ErrorPanel error={sandbox.error} onRetry={() => void sandbox.refetch()} />}
      <Live key={id} id={id} title={title} sandbox={sandbox.data} task={task.data} search={search} onSearch={onSearch} />
      <MessageBox sandboxId={id} isOver={Boolean(sandbox.data?.ended_at)} />
    </div>
  )
}

type LiveProps = Props & { title: string; sandbox: Sandbox | undefined; task: Task | null | undefined }

function Live({ id, title, sandbox, task, search, onSearch }: LiveProps) {
  const [feed, view] = useFeed(id)
  const isWide = useIsWide()
  const [derived] = useState(() => new Rows())
  // A replay shows everything as it was right after one event.
  const events = useMemo(() => upTo(view.events, search.at), [view.events, search.at])
  const rows = useMemo(() => derived.update(events), [derived, events])
  const later = useLater(useMemo(() => ({ events, rows, all: view.events }), [events, rows, view.events]))
  useEffect(() => feed.shown(later.all), [feed, later.all])
  const facts = useFold(foldFacts, later.events)
  const files = useFold(foldFiles, later.events)

  const asked = search.tab ?? (isWide ? 'terminal' : 'activity')
  const tab = isWide && asked === 'activity' ? 'terminal' : asked
  const tabs: TabItem<Tab>[] = [
    ...(isWide ? [] : [{ id: 'activity', label: 'Activity' } as const]),
    { id: 'terminal', label: 'Terminal' },
    { id: 'files', label: files.length > 0 ? `Files ${files.length}` : 'Files' },
    { id: 'details', label: 'Details' },
  ]
  const onSelect = useCallback(
    (event: number) => onSearch({ event, ...(!isWide && { tab: 'activity' as const }) }),
    [onSearch, isWide],
  )
  const onFile = useCallback((file: string, event: number | undefined) => onSearch({ tab: 'files', file, event }), [onSearch])

  const onAt = useCallback((at: number | undefined) => onSearch({ at }), [onSearch])
  const onKind = useCallback((kinds: Kind | undefined) => onSearch({ kinds }), [onSearch])

  const diff = useRef<DiffHandle>(null)
  const [ends, setEnds] = useState(0)
  useKeys({
    ...Object.fromEntries(tabs.map((one, n) => [String(n + 1), () => onSearch({ tab: one.id })])),
    n: () => diff.current?.next(),
    p: () => diff.current?.previous(),
    End: () => {
      onSearch({ at: undefined })
      setEnds((before) => before + 1)
    },
  })
  useEarlier(feed, view, Math.min(search.at ?? Infinity, search.event ?? Infinity))

  const activity = (
    <Pending view={view} onRetry={() => void feed.start()}>
      <Activity
        sandboxId={id}
        feed={feed}
        view={view}
        rows={rows}
        last={events.at(-1)?.seq ?? 0}
        kind={search.kinds}
        selected={search.event}
        ends={ends}
        onKind={onKind}
        onSelect={onSelect}
        onFile={onFile}
      />
    </Pending>
  )
  return (
    <>
      <Head id={id} title={title} sandbox={sandbox} task={task} facts={facts} />
      {sandbox?.ended_at && <Outcome sandbox={sandbox} task={task} />}
      <Summary events={view.events} />
      <div className="flex min-h-0 flex-1">
        {isWide && (
          <section aria-label="Activity" className="flex min-h-0 w-[54%] shrink-0 flex-col border-r border-line">
            {activity}
          </section>
        )}
        <Tabs label="Views of the sandbox" tabs={tabs} chosen={tab} onChoose={(chosen) => onSearch({ tab: chosen })}>
          {tab === 'activity' && activity}
          {tab === 'terminal' && <TerminalTab rows={later.rows} onSelect={onSelect} />}
          {tab === 'files' && <Changes sandboxId={id} files={files} file={search.file} event={search.event} onChoose={onFile} ref={diff} />}
          {tab === 'details' && <DetailsTab sandbox={sandbox} task={task} />}
        </Tabs>
      </div>
      <Replay events={later.all} at={search.at} onAt={onAt} />
    </>
  )
}

/** The events of the sandbox, followed while the page is open. */
function useFeed(id: string): [Feed, FeedView] {
  const queries = useQueryClient()
  const recount = useRefetch(sandboxCosts(id).queryKey)
  const [feed] = useState(
    () =>
      new Feed({
        history: (query) => eventHistory(id, query),
        open: (since, signal) => openStream({ entityIds: [id] }, since, signal),
        onEvent: (event) => {
          applyLive(queries, id, event)
          overhear(event)
          if (event.event_type === 'SANDBOX_model.call') recount()
        },
        // What is shown beside the events may have changed unheard.
        onOpen: () => {
          void queries.invalidateQueries({ queryKey: sandboxOne(id).queryKey })
          recount()
        },
      }),
  )
  const [view, setView] = useState(feed.view)
  // What the reader does goes before what comes: it is rendered in pieces, with room for keys and frames in between.
  useEffect(() => feed.subscribe(() => startTransition(() => setView(feed.view()))), [feed])
  useEffect(() => {
    void feed.start()
    return () => {
      feed.stop()
      setConnection(undefined)
    }
  }, [feed])
  useEffect(() => setConnection(view.stream), [view.stream])
  return [feed, view]
}

/** What stands beside the list comes after it, so that no frame has to do it all. */
function useLater<T>(value: T): T {
  const [later, setLater] = useState(value)
  useEffect(() => startTransition(() => setLater(value)), [value])
  return later
}

/** A link may point before what is loaded: that is loaded, page by page. */
function useEarlier(feed: Feed, view: FeedView, seq: number) {
  const first = view.events[0]?.seq
  const isWanted = first !== undefined && seq < first && view.hasEarlier && view.earlier === 'idle'
  useEffect(() => {
    if (isWanted) void feed.loadEarlier()
  }, [feed, isWanted])
}

function upTo(events: readonly LogEvent[], at: number | undefined): readonly LogEvent[] {
  if (at === undefined) return events
  return events.slice(0, events.findLastIndex((event) => event.seq <= at) + 1)
}

/** The list, or what stands in for it. */
function Pending({ view, onRetry, children }: { view: FeedView; onRetry: () => void; children: ReactNode }) {
  if (view.isLoading && view.events.length === 0) return <Skeleton rows={8} label="Loading events" />
  if (view.problem) return <ErrorPanel error={view.problem} onRetry={onRetry} />
  if (view.events.length > 0) return children
  return (
    <Empty title="No event yet.">
      <p>What the agent says and does appears here as it happens.</p>
    </Empty>
  )
}
