import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Sandbox } from '../../api/types'
import { useAtMostEverySecond, useLive } from '../../app/live'
import { Button } from '../../ui/Button'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { shortId } from '../../ui/plain'
import { State } from '../../ui/State'
import { Ago } from '../../ui/Time'
import { beat, HEARTBEATS, sandboxList } from './queries'

/** What changes a row. The rest of what agents report, most of the stream, is for the page of one sandbox. */
const CHANGES = {
  eventTypes: [
    ...HEARTBEATS,
    'SANDBOX_ATTACHED',
    'SANDBOX_ENDED',
    'SANDBOX_sandbox.spawned',
    'SANDBOX_sandbox.booting',
    'SANDBOX_agent.started',
    'TASK_ASSIGNED',
  ],
}

export function SandboxListPage({ isLiveOnly }: { isLiveOnly: boolean }) {
  const options = sandboxList(isLiveOnly)
  const list = useInfiniteQuery(options)
  const queries = useQueryClient()
  const refetch = useAtMostEverySecond(() => void queries.invalidateQueries({ queryKey: ['sandboxes'] }))
  const sandboxes = list.data?.pages.flatMap((page) => page.items) ?? []

  useLive(CHANGES, (event) => {
    if (event === 'connected' || !HEARTBEATS.includes(event.event_type)) return refetch()
    const known = sandboxes.find((sandbox) => sandbox.id === event.entity_id)
    if (known?.status === 'running') queries.setQueryData(options.queryKey, (data) => beat(data, event))
    else refetch()
  })

  return (
    <Page
      title="Sandboxes"
      aside={
        <nav aria-label="Filter" className="flex gap-1">
          <Chip isLiveOnly={false}>All</Chip>
          <Chip isLiveOnly>Live</Chip>
        </nav>
      }
    >
      {list.isPending && <Skeleton rows={6} label="Loading sandboxes" />}
      {list.error && <ErrorPanel error={list.error} onRetry={() => void list.refetch()} />}
      {list.data && sandboxes.length === 0 && (
        <Empty title={isLiveOnly ? 'No sandbox is live.' : 'No sandbox yet.'}>
          {isLiveOnly ? (
            <Link to="/sandboxes" className="text-accent underline">
              Show all sandboxes
            </Link>
          ) : (
            <p>One appears here as soon as an agent claims a task or a sandbox is attached.</p>
          )}
        </Empty>
      )}
      {sandboxes.length > 0 && (
        <table className="w-full text-left">
          <thead className="text-2xs text-subtle">
            <tr className="h-7 border-b border-line">
              <th className="px-4 font-medium">State</th>
              <th className="px-2 font-medium">Sandbox</th>
              <th className="hidden px-2 font-medium md:table-cell">Branch</th>
              <th className="hidden px-2 font-medium lg:table-cell">Provider</th>
              <th className="px-2 font-medium">Heartbeat or end</th>
              <th className="hidden px-2 font-medium md:table-cell">Created</th>
            </tr>
          </thead>
          <tbody>
            {sandboxes.map((sandbox) => (
              <Row key={sandbox.id} sandbox={sandbox} />
            ))}
          </tbody>
        </table>
      )}
      {list.hasNextPage && (
        <div className="p-3">
          <Button disabled={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
            {list.isFetchingNextPage ? 'Loading…' : 'Show more'}
          </Button>
        </div>
      )}
    </Page>
  )
}

function Chip({ isLiveOnly, children }: { isLiveOnly: boolean; children: ReactNode }) {
  return (
    <Link
      to="/sandboxes"
      search={isLiveOnly ? { state: 'live' } : {}}
      activeOptions={{ exact: true, includeSearch: true }}
      className="rounded-full px-3 py-0.5 text-muted hover:text-fg aria-[current=page]:bg-accent-soft aria-[current=page]:text-accent"
    >
      {children}
    </Link>
  )
}

function Row({ sandbox }: { sandbox: Sandbox }) {
  const isOver = sandbox.ended_at !== null && sandbox.ended_at !== undefined
  return (
    <tr className="h-8 border-b border-line hover:bg-raised">
      <td className="px-4">
        <State state={sandbox.status} />
      </td>
      <td className="px-2">
        <Link
          to="/sandboxes/$id"
          params={{ id: sandbox.id }}
          title={sandbox.id}
          className="inline-flex min-h-6 items-center font-mono text-xs text-accent hover:underline"
        >
          {shortId(sandbox.id)}
        </Link>
      </td>
      <td className="hidden max-w-80 truncate px-2 font-mono text-xs text-muted md:table-cell">
        {sandbox.branch_name ?? '–'}
      </td>
      <td className="hidden px-2 text-muted lg:table-cell">{sandbox.provider}</td>
      <td className="px-2">
        {isOver ? <span className="text-subtle">{sandbox.end_reason ?? 'ended'}</span> : <Ago at={sandbox.last_heartbeat_at} />}
      </td>
      <td className="hidden px-2 text-muted md:table-cell">
        <Ago at={sandbox.created_at} />
      </td>
    </tr>
  )
}
