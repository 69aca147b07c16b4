import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { Problem } from '../../api/problem'
import { useSession } from '../../api/session'
import type { LiveEvent, SpecDetail, SpecPhase } from '../../api/types'
import { usePageActions } from '../../app/actions'
import { useLive, useRefetch } from '../../app/live'
import { count, usd } from '../../ui/amount'
import { Button } from '../../ui/Button'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { oneLine, plain, shortId } from '../../ui/plain'
import { Reported } from '../../ui/Reported'
import { State } from '../../ui/State'
import { Ago } from '../../ui/Time'
import { mayArchive, useArchive } from './archive'
import { Comments } from './Comments'
import { openDuplicates } from './duplicates'
import { Export } from './Export'
import { Gate } from './Gate'
import { Gates } from './Gates'
import { Live } from './Live'
import { Output } from './Output'
import { shownPhase } from './phase'
import { useProgress } from './progress'
import { specOne } from './queries'
import { Rail } from './Rail'
import type { SpecSearch } from './search'
import { Versions } from './Versions'

const TITLE_CHARS = 160
const ERROR_CHARS = 160
/** More than these are not followed one by one; the spec tells when all of them are done. */
const TASKS_FOLLOWED_MAX = 200

type Props = { id: string; search: SpecSearch; onSearch: (change: SpecSearch) => void }

export function SpecPage({ id, search, onSearch }: Props) {
  const spec = useQuery(specOne(id))
  const phase = spec.data && shownPhase(spec.data, search.phase)
  const last = spec.data?.phases.find((attempt) => attempt.phase === phase)
  const running = spec.data?.phases.find((attempt) => attempt.state === 'running')
  const [acts, hear] = useProgress(last?.sandbox_id ?? undefined)
  const [now, hearRunning] = useProgress(running?.sandbox_id ?? undefined)
  useSpecStream(id, spec.data, (event) => {
    hearRunning(event)
    return hear(event)
  })

  if (spec.error instanceof Problem && [404, 422].includes(spec.error.status)) {
    return (
      <Page title="No such spec">
        <Empty title={`There is no spec ${oneLine(id, TITLE_CHARS)}.`}>
          <Link to="/specs" className="text-accent underline">
            All specs
          </Link>
        </Empty>
      </Page>
    )
  }
  return (
    <Page
      title={spec.data ? oneLine(spec.data.title, TITLE_CHARS) : 'Spec'}
      aside={
        spec.data && (
          <>
            <Facts spec={spec.data} />
            <ArchiveButton spec={spec.data} />
          </>
        )
      }
    >
      {spec.isPending && <Skeleton rows={8} label="Loading the spec" />}
      {spec.error && <ErrorPanel error={spec.error} onRetry={() => void spec.refetch()} />}
      {spec.data && phase && (
        <div className="flex flex-col gap-4 p-4">
          <Rail spec={spec.data} chosen={phase} doing={now.at(-1)?.words} />
          {spec.data.archived && (
            <p className="rounded-lg bg-warn-soft px-3 py-2 text-warn">It is archived: lists leave it out, and nothing of it is changed.</p>
          )}
          <Undecided spec={spec.data} phase={phase} />
          <Idea spec={spec.data} />
          {/* On a narrow screen what has to be decided comes first, and what happened last. */}
          <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,1fr)_minmax(20rem,24rem)] lg:grid-rows-[auto_1fr]">
            <div className="min-w-0 lg:col-start-2">
              <Gate spec={spec.data} phase={phase} />
            </div>
            <div className="flex min-w-0 flex-col gap-4 lg:col-start-1 lg:row-span-2 lg:row-start-1">
              <Views view={search.view} onSearch={onSearch} />
              {search.view === 'versions' ? (
                <Versions id={id} chosen={search.version} onSearch={onSearch} />
              ) : (
                <Output key={phase} spec={spec.data} phase={phase} search={search} onSearch={onSearch} />
              )}
            </div>
            <div className="flex min-w-0 flex-col gap-4 lg:col-start-2">
              {last && <Live last={last} acts={acts} />}
              <Comments id={id} phase={phase} isBegun={last !== undefined} />
              <Gates spec={spec.data} />
              <Export id={id} isBegun={spec.data.phases.length > 0} />
            </div>
          </div>
        </div>
      )}
    </Page>
  )
}

/** Its own changes, those of its tasks, and what the sandbox of the phase that is worked on does. */
function useSpecStream(id: string, spec: SpecDetail | undefined, hear: (event: LiveEvent) => boolean) {
  const queries = useQueryClient()
  const refetch = useRefetch(['spec', id])
  const ids = followed(id, spec).join(' ')
  const filter = useMemo(() => ({ entityIds: ids.split(' ') }), [ids])
  useLive(filter, (event) => {
    if (event === 'connected') {
      void queries.invalidateQueries({ queryKey: ['doing'] })
      refetch()
    } else if (event.entity_type === 'sandbox') {
      hear(event)
    } else {
      refetch()
    }
  })
}

export function followed(id: string, spec: SpecDetail | undefined): string[] {
  const running = spec?.phases.filter(({ state }) => state === 'running') ?? []
  const work = running.flatMap(({ task_id, sandbox_id }) => [task_id, sandbox_id])
  const check = spec?.branch?.check_task_id
  const tasks = spec?.items.map(({ task_id }) => task_id).slice(0, TASKS_FOLLOWED_MAX) ?? []
  return [...new Set([id, ...work, check, ...tasks].filter((one): one is string => Boolean(one)))]
}

function Facts({ spec }: { spec: SpecDetail }) {
  return (
    <p className="flex flex-wrap items-center gap-x-4 gap-y-1 text-xs text-muted tabular-nums">
      <State state={spec.status} />
      <span>{spec.progress} %</span>
      <span>{usd(spec.cost_usd)}</span>
      <Reported cost={spec.reported_cost} beside={spec.cost_usd} />
      <span>{spec.flow} flow</span>
      <span>version {spec.version}</span>
      {spec.project_id ? (
        <Link
          to="/projects/$id"
          params={{ id: spec.project_id }}
          title={spec.project_id}
          className="inline-flex min-h-6 items-center text-accent hover:underline"
        >
          project {shortId(spec.project_id)}
        </Link>
      ) : (
        <span className="text-warn">no project</span>
      )}
      <span>
        changed <Ago at={spec.updated_at} />
      </span>
    </p>
  )
}

/** Puts it away, or brings it back. */
function ArchiveButton({ spec }: { spec: SpecDetail }) {
  const who = useSession()
  const archive = useArchive(spec)
  const isOffered = who?.role !== 'viewer' && mayArchive(spec)
  const label = spec.archived ? 'Bring back' : 'Archive'
  usePageActions(isOffered ? [{ label: `${label} this spec`, run: () => archive.mutate() }] : [])
  if (!isOffered) return null
  return (
    <>
      <Button disabled={archive.isPending} onClick={() => archive.mutate()}>
        {label}
      </Button>
      {archive.error && (
        <span role="alert" className="untrusted text-bad">
          {oneLine(archive.error.message, ERROR_CHARS)}
        </span>
      )}
    </>
  )
}

/** Tasks that wait for a decision are told of on every phase; it is made where they are. */
function Undecided({ spec, phase }: { spec: SpecDetail; phase: SpecPhase }) {
  const open = openDuplicates(spec).length
  if (open === 0 || phase === 'tasks' || phase === 'sync') return null
  return (
    <p className="rounded-lg bg-warn-soft px-3 py-2 text-warn">
      {count(open, 'task')} may exist already.{' '}
      <Link to="/specs/$id" params={{ id: spec.id }} search={{ phase: 'sync' }} className="underline">
        Decide about {open === 1 ? 'it' : 'them'}
      </Link>
    </p>
  )
}

/** What was asked for; in sight until something came of it. */
function Idea({ spec }: { spec: SpecDetail }) {
  if (!spec.description) return null
  return (
    <details open={spec.phases.length === 0} className="rounded-lg border border-line bg-surface px-3 py-1">
      <summary className="cursor-pointer leading-6 font-medium">The idea</summary>
      <p className="untrusted py-1 text-muted">{plain(spec.description)}</p>
    </details>
  )
}

type ViewsProps = { view: SpecSearch['view']; onSearch: (change: SpecSearch) => void }

function Views({ view, onSearch }: ViewsProps) {
  const isVersions = view === 'versions'
  const look = 'h-8 cursor-pointer border-b-2 border-transparent px-1 text-muted hover:text-fg aria-pressed:border-accent aria-pressed:font-medium aria-pressed:text-fg'
  return (
    <div role="group" aria-label="What to show" className="-mb-2 flex gap-4">
      <button
        type="button"
        aria-pressed={!isVersions}
        onClick={() => onSearch({ view: undefined, version: undefined })}
        className={look}
      >
        Output
      </button>
      <button
        type="button"
        aria-pressed={isVersions}
        onClick={() => onSearch({ view: 'versions', attempt: undefined })}
        className={look}
      >
        Versions
      </button>
    </div>
  )
}
