import { useVirtualizer } from '@tanstack/react-virtual'
import { useRef } from 'react'
import { oneLine } from '../../../ui/plain'
import { State } from '../../../ui/State'
import type { OutlineRow } from './graph'

const ROW_PX = 32
const INDENT_PX = 20
const DEPTH_MAX = 12
const NAMES = 3

type Props = { rows: readonly OutlineRow[]; chosen: string | undefined; related: ReadonlySet<string> | undefined
  /** Why a task cannot begin. */
  conflicts: ReadonlyMap<string, string>; onChoose: (id: string) => void }

/** The graph as an indented list: each task below the last of those that it waits for. */
export function Outline({ rows, chosen, related, conflicts, onChoose }: Props) {
  const box = useRef<HTMLDivElement>(null)
  // oxlint-disable-next-line react/incompatible-library -- nothing here is memoised by a compiler
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    getItemKey: (index) => rows[index]?.node.id ?? index,
    overscan: 10,
  })
  return (
    <div ref={box} className="min-h-0 flex-1 overflow-auto p-2">
      <ul aria-label="Tasks and what they wait for" className="relative" style={{ height: list.getTotalSize() }}>
        {list.getVirtualItems().map(({ index, key, start }) => {
          const row = rows[index]
          if (!row) return null
          const { node, depth } = row
          return (
            <li
              key={key}
              ref={list.measureElement}
              data-index={index}
              aria-level={depth + 1}
              aria-posinset={index + 1}
              aria-setsize={rows.length}
              style={{ transform: `translateY(${start}px)`, paddingLeft: Math.min(depth, DEPTH_MAX) * INDENT_PX }}
              className="absolute inset-x-0 top-0"
            >
              <button
                type="button"
                aria-pressed={node.id === chosen}
                onClick={() => onChoose(node.id)}
                className={`flex min-h-8 w-full cursor-pointer items-center gap-x-3 rounded px-2 py-1 text-left hover:bg-raised aria-pressed:bg-accent-soft ${related?.has(node.id) ? 'text-accent' : ''}`}
              >
                <State state={node.status} />
                <span className="untrusted flex min-w-0 flex-wrap items-center gap-x-3">
                  {oneLine(node.title, 160)}
                  {row.waitsFor.length > 0 && <span className="text-xs text-muted">waits for {names(row)}</span>}
                  {conflicts.has(node.id) && <span className="text-xs text-bad">{conflicts.get(node.id)}</span>}
                </span>
              </button>
            </li>
          )
        })}
      </ul>
    </div>
  )
}

function names({ waitsFor }: OutlineRow): string {
  const first = waitsFor.slice(0, NAMES).map(({ title }) => oneLine(title, 60))
  const more = waitsFor.length - first.length
  return `${first.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}
