import { GitMerge } from 'lucide-react'
import { memo } from 'react'
import type { TaskStatus } from '../../../api/types'
import { nameOf, oneLine, shortId } from '../../../ui/plain'
import { State } from '../../../ui/State'
import { NODE_H, NODE_W, type Spot } from './layout'

const TITLE_CHARS = 80

/** The edge of a node says its state as its word does. */
const EDGES: Record<TaskStatus, string> = {
  pending: 'border-l-line-strong',
  assigned: 'border-l-guard',
  running: 'border-l-run',
  completed: 'border-l-ok',
  failed: 'border-l-bad',
  cancelled: 'border-l-line-strong',
}

export type Mark = 'chosen' | 'related' | 'critical' | 'none'

const MARKS: Record<Mark, string> = {
  chosen: 'border-accent bg-accent-soft ring-2 ring-accent',
  related: 'border-accent bg-accent-soft',
  critical: 'border-warn ring-1 ring-warn bg-surface',
  none: 'border-line-strong bg-surface hover:bg-raised',
}

type Props = { spot: Spot; mark: Mark; sandbox: string | undefined; conflict: string | undefined; isTabStop: boolean; onChoose: (id: string) => void }

export const Node = memo(function Node({ spot: { node, x, y }, mark, sandbox, conflict, isTabStop, onChoose }: Props) {
  return (
    <button
      type="button"
      data-node={node.id}
      tabIndex={isTabStop ? 0 : -1}
      aria-pressed={mark === 'chosen'}
      title={`${oneLine(node.title, 300)}\n${conflict ? `${conflict}\n` : ''}${node.id}`}
      onClick={() => onChoose(node.id)}
      style={{ transform: `translate(${x}px, ${y}px)`, width: NODE_W, height: NODE_H }}
      className={`absolute top-0 left-0 flex cursor-pointer flex-col justify-center gap-0.5 rounded-md border border-l-4 px-2 text-left ${MARKS[mark]} ${EDGES[node.status]}`}
    >
      <span className="untrusted truncate! w-full text-xs font-medium">{oneLine(node.title, TITLE_CHARS)}</span>
      <span className="flex w-full items-center gap-1.5 text-2xs text-muted">
        <State state={node.status} />
        {conflict ? (
          <span className="inline-flex min-w-0 items-center gap-1 text-bad">
            <GitMerge size={12} aria-hidden className="shrink-0" />
            <span className="truncate">predecessors conflict</span>
            <span className="sr-only">: {conflict}</span>
          </span>
        ) : (
          <span className="truncate font-mono">{sandbox ? nameOf(shortId(sandbox)) : shortId(node.id)}</span>
        )}
      </span>
    </button>
  )
})
