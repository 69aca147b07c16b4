import { defaultRangeExtractor, useVirtualizer, type Range, type Virtualizer } from '@tanstack/react-virtual'
import { memo, useCallback, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { commandOf } from '../../live/facts'
import { number } from '../../live/fields'
import type { Row, ToolRow } from '../../live/rows'
import { AnsiLine } from '../../ui/Ansi'
import { Empty } from '../../ui/panels'
import { oneLine } from '../../ui/plain'
import { duration } from '../../ui/time'
import { Clock } from '../../ui/Time'
import { endRange, offsetUnless } from '../../ui/following'
import { isFailed, isRunning } from './call'
import { TerminalLines, type Line } from './terminal'

const LINE_PX = 18
const OVERSCAN = 20
const NEAR_PX = 60
const COMMAND_CHARS = 500

/** Every command and what it wrote, one below the other. Read-only; follows the end while the reader is there. */
export const TerminalTab = memo(function TerminalTab({ rows, onSelect }: { rows: readonly Row[]; onSelect: (seq: number) => void }) {
  const box = useRef<HTMLDivElement>(null)
  const isFollowing = useRef(true)
  const [derived] = useState(() => new TerminalLines())
  const lines = useMemo(() => derived.update(rows), [derived, rows])
  // oxlint-disable-next-line react/incompatible-library -- nothing here is memoised by a compiler
  const list: Virtualizer<HTMLDivElement, Element> = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_PX,
    overscan: OVERSCAN,
    rangeExtractor: useCallback((range: Range) => (isFollowing.current ? endRange(list, range) : defaultRangeExtractor(range)), []),
    observeElementOffset: useMemo(() => offsetUnless(() => isFollowing.current), []),
    useFlushSync: false,
  })
  useLayoutEffect(() => {
    if (box.current && isFollowing.current) box.current.scrollTop = box.current.scrollHeight
  }, [lines])

  if (lines.length === 0) return <Empty title="No command has run yet." />
  const shown = list.getVirtualItems()
  return (
    <div
      ref={box}
      role="region"
      aria-label="Terminal, read-only"
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard
      tabIndex={0}
      onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
        isFollowing.current = scrollHeight - scrollTop - clientHeight < NEAR_PX
      }}
      className="term min-h-0 flex-1 overflow-auto font-mono text-xs"
    >
      <div className="relative min-w-max" style={{ height: list.getTotalSize() }}>
        <div className="absolute top-0 min-w-full" style={{ transform: `translateY(${shown[0]?.start ?? 0}px)` }}>
          {shown.map((item) => {
            const line = lines[item.index]
            return line && <TerminalLine key={item.key} line={line} onSelect={onSelect} />
          })}
        </div>
      </div>
    </div>
  )
})

/** A line that did not change is the same object, so nothing is rendered for it. */
const TerminalLine = memo(function TerminalLine({ line, onSelect }: { line: Line; onSelect: (seq: number) => void }) {
  switch (line.kind) {
    case 'command':
      return <Heading row={line.row} onSelect={onSelect} />
    case 'output':
      return (
        <div className="h-[18px] px-3 leading-[18px] whitespace-pre">
          <AnsiLine spans={line.spans} />
        </div>
      )
    case 'note':
      return <div className="h-[18px] px-3 leading-[18px] term-note">{line.words}</div>
    default:
      return line satisfies never
  }
})

function Heading({ row, onSelect }: { row: ToolRow; onSelect: (seq: number) => void }) {
  const code = number(row.ended?.data, 'exit_code') ?? number(row.done?.data, 'exit_code')
  const took = number(row.ended?.data, 'duration_ms') ?? number(row.done?.data, 'duration_ms')
  return (
    <div className="term-heading sticky left-0 flex h-[18px] items-center gap-3 px-3 leading-[18px] whitespace-pre">
      <button type="button" onClick={() => onSelect(row.seq)} title="Show this event" className="cursor-pointer hover:underline">
        <span className="ansi-cyan-fg">$ </span>
        <span className="font-semibold">{oneLine(commandOf(row) ?? '', COMMAND_CHARS)}</span>
      </button>
      <span className={isFailed(row) ? 'ansi-red-fg' : 'term-note'}>
        {isRunning(row) ? 'running' : code === undefined ? 'ended' : `exit ${code}`}
        {took !== undefined && ` · ${duration(took)}`}
      </span>
      <span className="term-note">
        <Clock at={row.at} />
      </span>
    </div>
  )
}
