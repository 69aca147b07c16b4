import { memo, useState, type ReactNode } from 'react'
import type { LogEvent } from '../../live/log'
import { plain } from '../../ui/plain'
import { duration } from '../../ui/time'
import { Clock } from '../../ui/Time'
import { textOf, toneOf, type Row, type Tone } from './rows'

/** Longer texts are cut until they are asked for. */
const CHARS_SHOWN = 600
const LINES_SHOWN = 8

const TONES: Record<Tone, string> = {
  plain: 'text-subtle',
  speech: 'text-accent',
  tool: 'text-run',
  good: 'text-ok',
  bad: 'text-bad',
}

export const EventRow = memo(function EventRow({ row }: { row: Row }) {
  switch (row.kind) {
    case 'event':
      return <OneEvent event={row.event} />
    case 'beats':
      return (
        <Line at={row.last.at} title={row.count === 1 ? 'heartbeat' : `${row.count} heartbeats`} tone="text-subtle">
          {row.count > 1 && (
            <span className="text-subtle">
              over {duration(new Date(row.last.at).getTime() - new Date(row.first.at).getTime())}
            </span>
          )}
        </Line>
      )
    case 'hole':
      return (
        <p className="px-4 py-1 text-warn">
          {row.count === 1 ? 'One event' : `${row.count} events`} in between not loaded yet
        </p>
      )
    default:
      return row satisfies never
  }
}, isSame)

/** Rows are made anew from the same events; what they show is the same as long as those are. */
function isSame({ row: a }: { row: Row }, { row: b }: { row: Row }): boolean {
  if (a.kind === 'event' && b.kind === 'event') return a.event === b.event
  if (a.kind === 'beats' && b.kind === 'beats') return a.first === b.first && a.last === b.last && a.count === b.count
  return a.kind === 'hole' && b.kind === 'hole' && a.count === b.count
}

function OneEvent({ event }: { event: LogEvent }) {
  const [isWhole, setIsWhole] = useState(false)
  const [isRaw, setIsRaw] = useState(false)
  const text = plain(textOf(event))
  const short = cut(text)
  return (
    <Line
      at={event.at}
      title={event.type}
      tone={TONES[toneOf(event)]}
      aside={
        <Toggle isOn={isRaw} onToggle={setIsRaw}>
          {isRaw ? 'Hide data' : 'Data'}
        </Toggle>
      }
    >
      {text !== '' && <p className="untrusted">{isWhole ? text : short}</p>}
      {short !== text && (
        <Toggle isOn={isWhole} onToggle={setIsWhole}>
          {isWhole ? 'Show less' : 'Show all'}
        </Toggle>
      )}
      {isRaw && (
        <pre className="untrusted max-h-96 w-full overflow-auto rounded bg-sunken p-2 font-mono text-xs">
          {plain(JSON.stringify(event.data, null, 2) ?? '')}
        </pre>
      )}
    </Line>
  )
}

function cut(text: string): string {
  const lines = text.split('\n', LINES_SHOWN + 1)
  const few = lines.length > LINES_SHOWN ? lines.slice(0, LINES_SHOWN).join('\n') : text
  const short = few.slice(0, CHARS_SHOWN)
  return short.length < text.length ? `${short}…` : text
}

type LineProps = { at: string; title: string; tone: string; aside?: ReactNode; children: ReactNode }

/** Time, type, words and what can be opened; on a narrow screen the words go below. */
function Line({ at, title, tone, aside, children }: LineProps) {
  return (
    <div className="grid grid-cols-[4.5rem_minmax(0,1fr)_auto] gap-x-2 px-4 py-1 md:grid-cols-[4.5rem_11rem_minmax(0,1fr)_auto]">
      <span className="font-mono text-xs leading-5 text-subtle">
        <Clock at={at} />
      </span>
      <span className={`untrusted font-mono text-xs leading-5 ${tone}`}>{plain(title)}</span>
      <div className="md:order-last">{aside}</div>
      <div className="col-span-2 col-start-2 flex min-w-0 flex-col items-start md:col-span-1 md:col-start-3">{children}</div>
    </div>
  )
}

type ToggleProps = { isOn: boolean; onToggle: (isOn: boolean) => void; children: ReactNode }

function Toggle({ isOn, onToggle, children }: ToggleProps) {
  return (
    <button
      type="button"
      aria-expanded={isOn}
      onClick={() => onToggle(!isOn)}
      className="-my-0.5 min-h-6 min-w-6 cursor-pointer text-xs text-subtle hover:text-fg hover:underline"
    >
      {children}
    </button>
  )
}
