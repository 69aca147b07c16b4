import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect, useState, useSyncExternalStore } from 'react'
import { openStream } from '../../api/client'
import { Problem } from '../../api/problem'
import type { Sandbox, Task } from '../../api/types'
import { setConnection } from '../../app/live'
import { Feed } from '../../live/feed'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { oneLine } from '../../ui/plain'
import { State } from '../../ui/State'
import { Ago } from '../../ui/Time'
import { EventList } from './EventList'
import { MessageBox } from './MessageBox'
import { applyLive, eventHistory, sandboxOne, sandboxTask } from './queries'
import { Summary } from './Summary'

const TITLE_CHARS = 120

export function SandboxPage({ id }: { id: string }) {
  const sandbox = useQuery(sandboxOne(id))
  const task = useQuery(sandboxTask(id))
  const title = task.data ? oneLine(task.data.title, TITLE_CHARS) : id

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
      <Head id={id} title={title} sandbox={sandbox.data} task={task.data} />
      {sandbox.error && <ErrorPanel error={sandbox.error} onRetry={() => void sandbox.refetch()} />}
      <Events key={id} id={id} />
      <MessageBox sandboxId={id} isOver={sandbox.data?.status === 'terminated'} />
    </div>
  )
}

type HeadProps = { id: string; title: string; sandbox: Sandbox | undefined; task: Task | null | undefined }

function Head({ id, title, sandbox, task }: HeadProps) {
  return (
    <div className="flex shrink-0 flex-col gap-1 border-b border-line px-4 py-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <h1 className="untrusted text-lg font-semibold">{title}</h1>
        {sandbox && <State state={sandbox.status} />}
      </div>
      <p className="flex flex-wrap gap-x-4 gap-y-1 text-xs text-muted">
        <span className="font-mono break-all">{id}</span>
        {sandbox?.branch_name && <span className="font-mono break-all">{sandbox.branch_name}</span>}
        {task && (
          <span>
            task <span className="font-mono break-all">{task.id}</span> {task.status}
          </span>
        )}
        {sandbox && !sandbox.ended_at && (
          <span>
            heartbeat <Ago at={sandbox.last_heartbeat_at} none="none yet" />
          </span>
        )}
        {sandbox?.ended_at && (
          <span>
            ended <Ago at={sandbox.ended_at} /> {sandbox.end_reason && `(${oneLine(sandbox.end_reason, 60)})`}
          </span>
        )}
      </p>
    </div>
  )
}

function Events({ id }: { id: string }) {
  const queries = useQueryClient()
  const [feed] = useState(
    () =>
      new Feed({
        history: (query) => eventHistory(id, query),
        open: (since, signal) => openStream({ entityIds: [id] }, since, signal),
        onEvent: (event) => applyLive(queries, id, event),
        // What is shown beside the events may have changed unheard.
        onOpen: () => void queries.invalidateQueries({ queryKey: sandboxOne(id).queryKey }),
      }),
  )
  useEffect(() => {
    void feed.start()
    return () => {
      feed.stop()
      setConnection(undefined)
    }
  }, [feed])
  const view = useSyncExternalStore(feed.subscribe, feed.view)
  useEffect(() => setConnection(view.stream), [view.stream])

  if (view.isLoading && view.events.length === 0) return <Filler><Skeleton rows={8} label="Loading events" /></Filler>
  if (view.problem) return <Filler><ErrorPanel error={view.problem} onRetry={() => void feed.start()} /></Filler>
  if (view.events.length === 0) {
    return (
      <Filler>
        <Empty title="No event yet.">
          <p>What the agent says and does appears here as it happens.</p>
        </Empty>
      </Filler>
    )
  }
  return (
    <>
      <Summary events={view.events} />
      {view.earlier instanceof Problem && <ErrorPanel error={view.earlier} onRetry={() => void feed.loadEarlier()} />}
      <EventList
        events={view.events}
        hasEarlier={view.hasEarlier}
        isLoadingEarlier={view.earlier === 'loading'}
        onEarlier={() => void feed.loadEarlier()}
        onFollow={(isFollowing) => feed.setFollowing(isFollowing)}
      />
    </>
  )
}

function Filler({ children }: { children: React.ReactNode }) {
  return <div className="min-h-0 flex-1 overflow-auto">{children}</div>
}
