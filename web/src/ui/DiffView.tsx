import { useVirtualizer } from '@tanstack/react-virtual'
import { ChevronDown, ChevronUp } from 'lucide-react'
import { memo, useImperativeHandle, useMemo, useRef, type ReactNode, type Ref } from 'react'
import { changesIn, parseDiff, sideBySide, type Diff, type DiffLine, type SideRow } from './diff'
import { IconButton } from './IconButton'
import { visible } from './plain'
import { useRemembered } from './remembered'

const ROW_PX = 20
const OVERSCAN = 20
/** A longer line would be laid out for seconds. */
const CHARS_MAX = 2_000

const SIGNS = { added: '+', removed: '−', same: ' ' } as const
const LAYOUTS = ['unified', 'split'] as const
const WORDS = { unified: 'One column', split: 'Side by side' }

/** Several edits of one file are shown one below the other, each under its title. */
export type DiffPart = { title?: string; text: string }

export type DiffHandle = { next: () => void; previous: () => void }

type Props = { parts: readonly DiffPart[]; ref?: Ref<DiffHandle>; aside?: ReactNode }

/** The whole of a diff, in one column or in two; only the lines in sight are in the page. */
export function DiffView({ parts, ref, aside }: Props) {
  const [layout, setLayout] = useRemembered('diff', LAYOUTS)
  const diff = useMemo(() => joined(parts), [parts])
  const isSplit = layout === 'split'
  const rows = useMemo(() => (isSplit ? sideBySide(diff.lines) : diff.lines), [diff, isSplit])
  const changes = useMemo(() => changesIn<SideRow | DiffLine>(rows, isChange), [rows])
  const box = useRef<HTMLDivElement>(null)
  // oxlint-disable-next-line react/incompatible-library -- nothing here is memoised by a compiler
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
  })
  const items = list.getVirtualItems()

  const go = (step: 1 | -1) => {
    const top = list.getVirtualItemForOffset(box.current?.scrollTop ?? 0)?.index ?? 0
    const index = step > 0 ? changes.find((at) => at > top) : changes.findLast((at) => at < top)
    if (index !== undefined) list.scrollToIndex(index, { align: 'start' })
  }
  useImperativeHandle(ref, () => ({ next: () => go(1), previous: () => go(-1) }))

  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <div className="flex min-h-8 shrink-0 flex-wrap items-center gap-x-2 border-b border-line px-2 text-xs text-muted">
        {aside}
        <span className="flex-1" />
        <IconButton label="Previous change" onClick={() => go(-1)} isOff={changes.length === 0}>
          <ChevronUp size={14} aria-hidden />
        </IconButton>
        <IconButton label="Next change" onClick={() => go(1)} isOff={changes.length === 0}>
          <ChevronDown size={14} aria-hidden />
        </IconButton>
        <div role="group" aria-label="Layout of the diff" className="flex gap-1">
          {LAYOUTS.map((one) => (
            <button
              key={one}
              type="button"
              aria-pressed={one === layout}
              onClick={() => setLayout(one)}
              className="h-6 cursor-pointer rounded-full px-2 hover:bg-raised hover:text-fg aria-pressed:bg-sunken aria-pressed:font-medium aria-pressed:text-fg"
            >
              {WORDS[one]}
            </button>
          ))}
        </div>
      </div>
      <DiffNotes diff={diff} />
      <div
        ref={box}
        role="region"
        aria-label="Diff"
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard
        tabIndex={0}
        className="min-h-0 flex-1 overflow-auto bg-sunken"
      >
        <div className={`relative ${isSplit ? '' : 'min-w-max'}`} style={{ height: list.getTotalSize() }}>
          <div className="absolute top-0 min-w-full" style={{ transform: `translateY(${items[0]?.start ?? 0}px)`, ...(isSplit && { width: '100%' }) }}>
            {items.map((item) => {
              const row = rows[item.index]
              if (!row) return null
              // Two columns are narrow, so their lines wrap and have heights of their own.
              return row.kind === 'pair' ? (
                <div key={item.key} ref={list.measureElement} data-index={item.index}>
                  <Pair row={row} />
                </div>
              ) : (
                <Line key={item.key} line={row} />
              )
            })}
          </div>
        </div>
      </div>
    </div>
  )
}

function isChange(row: SideRow | DiffLine): boolean {
  if (row.kind === 'pair') return row.left?.kind === 'removed' || row.right?.kind === 'added'
  return row.kind === 'added' || row.kind === 'removed'
}

function joined(parts: readonly DiffPart[]): Diff {
  const diffs = parts.map((part) => ({ ...part, diff: parseDiff(part.text) }))
  return {
    lines: diffs.flatMap(({ title, diff }): DiffLine[] => [...(title ? [{ kind: 'hunk', text: title } as const] : []), ...diff.lines]),
    notes: [...new Set(diffs.flatMap(({ diff }) => diff.notes))],
    isCut: diffs.some(({ diff }) => diff.isCut),
  }
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
      <Text line={line} />
    </div>
  )
})

const Pair = memo(function Pair({ row: { left, right } }: { row: SideRow & { kind: 'pair' } }) {
  return (
    <div className="diff-pair">
      <Side line={left} number={left && left.kind !== 'hunk' && left.kind !== 'added' ? left.old : undefined} />
      {/* The same line is said once. */}
      <Side line={right} number={right && right.kind !== 'hunk' && right.kind !== 'removed' ? right.now : undefined} isHidden={left === right} />
    </div>
  )
})

function Side({ line, number, isHidden = false }: { line: DiffLine | undefined; number: number | undefined; isHidden?: boolean }) {
  return (
    <div className={`diff-side ${line && line.kind !== 'same' ? `diff-${line.kind}` : ''}`} aria-hidden={isHidden || undefined}>
      <span className="diff-number">{number}</span>
      {line && <Text line={line} />}
    </div>
  )
}

function Text({ line }: { line: DiffLine }) {
  if (line.kind === 'hunk') return null
  return (
    <span className="diff-text">
      <span aria-hidden>{SIGNS[line.kind]}</span>
      {line.kind !== 'same' && <span className="sr-only">{line.kind}: </span>}
      {shown(line.text)}
    </span>
  )
}

function shown(text: string): string {
  return visible(text.length > CHARS_MAX ? `${text.slice(0, CHARS_MAX)}…` : text)
}
