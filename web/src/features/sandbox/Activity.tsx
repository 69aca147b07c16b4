import { memo, useMemo } from 'react'
import { Problem } from '../../api/problem'
import type { Feed, FeedView } from '../../live/feed'
import type { Row } from '../../live/rows'
import { Button } from '../../ui/Button'
import { Empty, ErrorPanel } from '../../ui/panels'
import { EventList } from './EventList'
import { isOfKind, KINDS, type Kind } from './search'

const LABELS: Record<Kind, string> = { messages: 'Messages', tools: 'Tools', files: 'Files', guardian: 'Guardian' }

type Props = {
  sandboxId: string
  feed: Feed
  view: FeedView
  rows: readonly Row[]
  /** The `seq` of the last event that is shown. */
  last: number
  kind: Kind | undefined
  selected: number | undefined
  /** Grows each time the reader asks for the end. */
  ends: number
  onKind: (kind: Kind | undefined) => void
  onSelect: (seq: number) => void
  onFile: (path: string, seq: number) => void
}

/** What happened, and which kinds of it to show. */
export const Activity = memo(function Activity({ sandboxId, feed, view, rows, last, kind, selected, ends, onKind, onSelect, onFile }: Props) {
  const shown = useMemo(() => (kind ? rows.filter((row) => isOfKind(row, kind)) : rows), [rows, kind])
  return (
    <>
      <div role="group" aria-label="Kinds of events" className="flex h-9 shrink-0 items-center gap-1 border-b border-line px-2">
        <Chip isOn={kind === undefined} onClick={() => onKind(undefined)}>
          All
        </Chip>
        {KINDS.map((one) => (
          <Chip key={one} isOn={kind === one} onClick={() => onKind(one)}>
            {LABELS[one]}
          </Chip>
        ))}
      </div>
      {view.earlier instanceof Problem && <ErrorPanel error={view.earlier} onRetry={() => void feed.loadEarlier()} />}
      {shown.length === 0 ? (
        <Empty title="No event of this kind.">
          <Button onClick={() => onKind(undefined)}>Show all</Button>
        </Empty>
      ) : (
        <EventList
          key={kind ?? 'all'}
          sandboxId={sandboxId}
          rows={shown}
          last={last}
          hasEarlier={view.hasEarlier}
          isLoadingEarlier={view.earlier === 'loading'}
          selected={selected}
          ends={ends}
          onEarlier={() => void feed.loadEarlier()}
          onFollow={(isFollowing) => feed.setFollowing(isFollowing)}
          onSelect={onSelect}
          onFile={onFile}
        />
      )}
    </>
  )
})

function Chip({ isOn, onClick, children }: { isOn: boolean; onClick: () => void; children: string }) {
  return (
    <button
      type="button"
      aria-pressed={isOn}
      onClick={onClick}
      className="h-6 cursor-pointer rounded-full px-2.5 text-xs text-muted hover:bg-raised hover:text-fg aria-pressed:bg-sunken aria-pressed:font-medium aria-pressed:text-fg"
    >
      {children}
    </button>
  )
}
