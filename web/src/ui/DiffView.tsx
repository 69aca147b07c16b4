import { useVirtualizer } from '@tanstack/react-virtual'
import { memo, useMemo, useRef } from 'react'
import { parseDiff, type Diff, type DiffLine } from './diff'
import { visible } from './plain'

const ROW_PX = 20
const OVERSCAN = 20
/** A longer line would be laid out for seconds. */
const CHARS_MAX = 2_000

const SIGNS = { added: '+', removed: '−', same: ' ' } as const

/** The whole of a diff; only the lines in sight are in the page. */
export function DiffView({ text }: { text: string }) {
  const diff = useMemo(() => parseDiff(text), [text])
  const box = useRef<HTMLDivElement>(null)
  // oxlint-disable-next-line react/incompatible-library -- nothing here is memoised by a compiler
  const rows = useVirtualizer({
    count: diff.lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
  })
  const items = rows.getVirtualItems()
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <DiffNotes diff={diff} />
      <div
        ref={box}
        role="region"
        aria-label="Diff"
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard
        tabIndex={0}
        className="min-h-0 flex-1 overflow-auto bg-sunken"
      >
        <div className="relative min-w-max" style={{ height: rows.getTotalSize() }}>
          <div className="absolute top-0 min-w-full" style={{ transform: `translateY(${items[0]?.start ?? 0}px)` }}>
            {items.map((item) => {
              const line = diff.lines[item.index]
              return line && <Line key={item.key} line={line} />
            })}
          </div>
        </div>
      </div>
    </div>
  )
}

/** The first lines of a diff, for a look in passing. */
export function DiffStart({ text, lines }: { text: string; lines: number }) {
  const diff = useMemo(() => parseDiff(text), [text])
  // One line before the first change tells where it is.
  const change = diff.lines.findIndex((line) => line.kind === 'added' || line.kind === 'removed')
  const all = diff.lines.slice(Math.max(0, change - 1))
  const first = all.filter((line) => line.kind !== 'hunk').slice(0, lines)
  return (
    <div className="overflow-hidden rounded border border-line bg-sunken">
      <DiffNotes diff={diff} />
      {first.map((line) => (
        <Line key={keyOf(line)} line={line} />
      ))}
    </div>
  )
}

function DiffNotes({ diff }: { diff: Diff }) {
  const notes = [...diff.notes, ...(diff.isCut ? ['too long to be shown whole'] : [])]
  if (notes.length === 0) return null
  return <p className="untrusted border-b border-line px-2 text-xs text-muted">{visible(notes.join(' · '))}</p>
}

function keyOf(line: DiffLine): string {
  return line.kind === 'hunk' ? line.text : `${line.kind}-${line.kind === 'removed' ? line.old : line.now}`
}

const Line = memo(function Line({ line }: { line: DiffLine }) {
  if (line.kind === 'hunk') {
    return (
      <div className="diff-row bg-run-soft text-run">
        <span className="diff-number" />
        <span className="diff-number" />
        <span className="diff-text">{shown(line.text)}</span>
      </div>
    )
  }
  return (
    <div className={`diff-row diff-${line.kind}`}>
      <span className="diff-number">{line.kind === 'added' ? '' : line.old}</span>
      <span className="diff-number">{line.kind === 'removed' ? '' : line.now}</span>
      <span className="diff-text">
        <span aria-hidden>{SIGNS[line.kind]}</span>
        {line.kind !== 'same' && <span className="sr-only">{line.kind}: </span>}
        {shown(line.text)}
      </span>
    </div>
  )
})

function shown(text: string): string {
  return visible(text.length > CHARS_MAX ? `${text.slice(0, CHARS_MAX)}…` : text)
}
