import { useInfiniteQuery, useQueries } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { SpecVersion } from '../../api/types'
import { Button } from '../../ui/Button'
import { DiffView } from '../../ui/DiffView'
import { lineDiff } from '../../ui/lineDiff'
import { ErrorPanel, Skeleton } from '../../ui/panels'
import { nameOf } from '../../ui/plain'
import { Quiet, Section } from '../../ui/Section'
import { Ago } from '../../ui/Time'
import { specPhase, specVersions } from './queries'
import type { SpecSearch } from './search'
import { differing, keyOf, moved, snapshotOf, versionText } from './versions'

type Props = { id: string; chosen: number | undefined; onSearch: (change: SpecSearch) => void }

/** What the spec was, version by version, and what each has changed. */
export function Versions({ id, chosen, onSearch }: Props) {
  const list = useInfiniteQuery(specVersions(id))
  const versions = list.data?.pages.flatMap((page) => page.items) ?? []
  return (
    <Section title="Versions">
      {list.isPending && <Skeleton rows={4} label="Loading versions" />}
      {list.error && <ErrorPanel error={list.error} onRetry={() => void list.refetch()} />}
      <ul>
        {versions.map((version, n) => (
          <Row
            key={version.version}
            id={id}
            version={version}
            before={versions[n + 1]}
            isChosen={version.version === chosen}
            onChoose={() => onSearch({ version: version.version === chosen ? undefined : version.version })}
          />
        ))}
      </ul>
      {list.hasNextPage && (
        <div className="p-3">
          <Button disabled={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
            {list.isFetchingNextPage ? 'Loading…' : 'Show older ones'}
          </Button>
        </div>
      )}
    </Section>
  )
}

const CAUSES: Record<string, string> = {
  created: 'wrote it down',
  imported: 'imported it',
  updated: 'changed it',
  executed: 'started it',
  phase_passed: 'a phase passed',
  phase_failed: 'a phase failed',
  approved: 'approved a phase',
  changes_requested: 'asked for changes',
  edited: 'wrote an output',
  synced: 'made its tasks',
  completed: 'completed',
  failed: 'failed',
  archived: 'archived it',
  duplicate_decided: 'decided about a task that may exist already',
}

type RowProps = { id: string; version: SpecVersion; before: SpecVersion | undefined; isChosen: boolean; onChoose: () => void }

function Row({ id, version, before, isChosen, onChoose }: RowProps) {
  const isOurs = version.actor === 'advance'
  const phases = moved(before && snapshotOf(before), snapshotOf(version))
  return (
    <li className="flex flex-wrap items-center gap-x-3 border-b border-line px-3 py-1 last:border-b-0">
      <span className="w-8 font-mono text-xs text-muted tabular-nums">{version.version}</span>
      <span className="untrusted min-w-0 flex-1">
        {!isOurs && <span className="font-medium">{nameOf(version.actor)} </span>}
        {CAUSES[version.cause] ?? nameOf(version.cause)}
        {phases.length > 0 && <span className="text-muted"> · {nameOf(phases.join(', '))}</span>}
      </span>
      <span className="text-xs text-muted">
        <Ago at={version.created_at} />
      </span>
      <Button aria-expanded={isChosen} aria-label={`Changes of version ${version.version}`} onClick={onChoose}>
        Changes
      </Button>
      {isChosen && (
        <div className="my-1 basis-full overflow-hidden rounded border border-line">
          <Changes id={id} before={before} after={version} />
        </div>
      )}
    </li>
  )
}

type ChangesProps = { id: string; before: SpecVersion | undefined; after: SpecVersion }

function Changes({ id, before, after }: ChangesProps) {
  const [old, now] = useMemo(() => [before && snapshotOf(before), snapshotOf(after)], [before, after])
  const wanted = useMemo(() => differing(old, now), [old, now])
  const outputs = useQueries({ queries: wanted.map(({ phase, attempt }) => specPhase(id, phase, attempt)) })
  const error = outputs.find((query) => query.error)?.error
  const isPending = outputs.some((query) => query.isPending)
  const documents = new Map<string, string>()
  wanted.forEach((which, n) => {
    const markdown = outputs[n]?.data?.markdown
    if (markdown) documents.set(keyOf(which), markdown)
  })
  if (error) return <ErrorPanel error={error} />
  if (isPending) return <Skeleton rows={4} label="Loading what changed" />
  const diff = lineDiff(old ? versionText(old, documents) : '', versionText(now, documents))
  if (diff === '') return <Quiet>Nothing that is shown here differs.</Quiet>
  return (
    <div className="flex h-100 flex-col">
      <DiffView parts={[{ text: diff }]} />
    </div>
  )
}
