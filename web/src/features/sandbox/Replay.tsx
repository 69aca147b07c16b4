import { ChevronLeft, ChevronRight } from 'lucide-react'
import type { LogEvent } from '../../live/log'
import { clockSeconds } from '../../ui/time'

type Props = { events: readonly LogEvent[]; at: number | undefined; onAt: (at: number | undefined) => void }

/** Goes back to the moment after any event that is loaded, one by one or by far; the page then shows that moment. */
export function Replay({ events, at, onAt }: Props) {
  const [first, last] = [events[0], events.at(-1)]
  if (!first || !last || first === last) return null
  const now = Math.max(first.seq, Math.min(at ?? last.seq, last.seq))
  const shown = events.findLast((event) => event.seq <= now) ?? first
  // The end is not a moment of its own: there the page is live.
  const go = (seq: number) => onAt(seq >= last.seq ? undefined : Math.max(first.seq, seq))
  const words = `${clockSeconds(new Date(shown.at))}, event ${now} of ${last.seq}`
  return (
    <div role="group" aria-label="Replay" className="flex h-9 shrink-0 items-center gap-1 border-t border-line bg-surface px-2 text-xs text-muted">
      <Step label="One event back" isOff={now <= first.seq} onClick={() => go(now - 1)}>
        <ChevronLeft size={14} aria-hidden />
      </Step>
      <Step label="One event on" isOff={now >= last.seq} onClick={() => go(now + 1)}>
        <ChevronRight size={14} aria-hidden />
      </Step>
      <input
        type="range"
        aria-label="Moment"
        aria-valuetext={words}
        min={first.seq}
        max={last.seq}
        value={now}
        onChange={(event) => go(Number(event.target.value))}
        className="h-6 min-w-0 flex-1 cursor-pointer accent-accent"
      />
      <span className="font-mono text-2xs whitespace-nowrap tabular-nums" aria-hidden>
        {clockSeconds(new Date(shown.at))} · {now}/{last.seq}
      </span>
      <button
        type="button"
        disabled={at === undefined}
        onClick={() => onAt(undefined)}
        className="ml-1 h-6 cursor-pointer rounded bg-warn-soft px-2 font-medium text-warn disabled:cursor-default disabled:bg-sunken disabled:text-muted"
      >
        {at === undefined ? 'At the end' : 'Back to the end'}
      </button>
    </div>
  )
}

type StepProps = { label: string; isOff: boolean; onClick: () => void; children: React.ReactNode }

function Step({ label, isOff, onClick, children }: StepProps) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      disabled={isOff}
      onClick={onClick}
      className="inline-flex size-6 cursor-pointer items-center justify-center rounded hover:bg-raised hover:text-fg disabled:cursor-default disabled:opacity-50"
    >
      {children}
    </button>
  )
}
