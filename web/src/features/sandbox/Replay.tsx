import { ChevronLeft, ChevronRight, OctagonAlert, Pause, Play } from 'lucide-react'
import { memo, useEffect, useEffectEvent, useState, type KeyboardEvent } from 'react'
import { useKeys } from '../../app/keys'
import type { LogEvent } from '../../live/log'
import { eventAt, foldMarks, MARK_KINDS, nextStep, placeOf, PLACES, SPEEDS, type MarkKind, type Marks, type Pace, type Speed } from '../../live/replay'
import { count } from '../../ui/amount'
import { IconButton } from '../../ui/IconButton'
import { clockSeconds } from '../../ui/time'
import { useFold } from './useFold'

type Props = { events: readonly LogEvent[]; at: number | undefined; onAt: (at: number | undefined) => void }

/** Goes back to the moment after any event that is loaded, or plays from there; the page then shows that moment. */
export const Replay = memo(function Replay(props: Props) {
  return props.events.length > 1 ? <Line {...props} /> : null
})

function Line({ events, at, onAt }: Props) {
  const [isPlaying, setIsPlaying] = useState(false)
  const [speed, setSpeed] = useState<Speed>(1)
  const [isIdleSkipped, setIsIdleSkipped] = useState(true)
  const marks = useFold(foldMarks, events)
  const [first, last] = [events[0], events.at(-1)] as [LogEvent, LogEvent]
  const index = at === undefined ? events.length - 1 : Math.max(0, events.findLastIndex((event) => event.seq <= at))
  const shown = events[index] ?? last
  const now = shown.seq

  // The end is not a moment of its own: there the page is live.
  const go = (event: LogEvent | undefined) => onAt(!event || event.seq >= last.seq ? undefined : event.seq)
  const step = (by: number) => {
    setIsPlaying(false)
    go(events[Math.max(0, index + by)])
  }
  const play = () => {
    // What is at its end begins anew.
    if (!isPlaying && index >= events.length - 1) onAt(first.seq)
    setIsPlaying(!isPlaying)
  }
  // After the last error comes the first again.
  const { errors } = marks
  const nextError = () => {
    setIsPlaying(false)
    const next = (at === undefined ? undefined : errors.find((seq) => seq > now)) ?? errors[0]
    if (next !== undefined) onAt(next)
  }
  useKeys({ ' ': play, ArrowLeft: () => step(-1), ArrowRight: () => step(1), e: errors.length > 0 ? nextError : undefined })

  const ahead = useEffectEvent((seq: number, pace: Pace) => nextStep(events, events.findLastIndex((event) => event.seq <= seq), pace))
  const arrive = useEffectEvent((to: number) => {
    if (to >= events.length - 1) setIsPlaying(false)
    go(events[to])
  })
  useEffect(() => {
    if (!isPlaying) return
    const next = ahead(now, { speed, isIdleSkipped })
    if (!next) return
    const timer = setTimeout(() => arrive(next.index), next.waitMs)
    return () => clearTimeout(timer)
  }, [isPlaying, now, speed, isIdleSkipped])

  return (
    <div
      role="group"
      aria-label="Replay"
      className="flex min-h-9 shrink-0 flex-wrap items-center gap-x-1 border-t border-line bg-surface px-2 text-xs text-muted"
    >
      <IconButton label={isPlaying ? 'Pause' : 'Play'} onClick={play}>
        {isPlaying ? <Pause size={14} aria-hidden /> : <Play size={14} aria-hidden />}
      </IconButton>
      <IconButton label="One event back" isOff={index <= 0} onClick={() => step(-1)}>
        <ChevronLeft size={14} aria-hidden />
      </IconButton>
      <IconButton label="One event on" isOff={index >= events.length - 1} onClick={() => step(1)}>
        <ChevronRight size={14} aria-hidden />
      </IconButton>
      <Slider events={events} shown={shown} marks={marks} onStep={step} onTime={(time) => go(eventAt(events, time))} />
      <span className="font-mono text-2xs whitespace-nowrap tabular-nums" aria-hidden>
        {clockSeconds(new Date(shown.at))}
        <span className="hidden md:inline">
          {' '}
          / {clockSeconds(new Date(last.at))} · {now}/{last.seq}
        </span>
      </span>
      {errors.length > 0 && (
        <IconButton label={`Next error of ${errors.length}`} onClick={nextError}>
          <OctagonAlert size={14} aria-hidden className="text-bad" />
        </IconButton>
      )}
      <Speeds speed={speed} onSpeed={setSpeed} />
      <label className="flex min-h-6 items-center gap-1 px-1 whitespace-nowrap">
        <input
          type="checkbox"
          checked={isIdleSkipped}
          onChange={(event) => setIsIdleSkipped(event.target.checked)}
          className="size-4 accent-accent"
        />
        skip idle
      </label>
      <button
        type="button"
        disabled={at === undefined}
        onClick={() => {
          setIsPlaying(false)
          onAt(undefined)
        }}
        className="ml-auto h-6 cursor-pointer max-md:disabled:hidden rounded bg-warn-soft px-2 font-medium whitespace-nowrap text-warn disabled:cursor-default disabled:bg-sunken disabled:text-muted"
      >
        {at === undefined ? 'At the end' : 'Back to the end'}
      </button>
    </div>
  )
}

const MARKS: Record<MarkKind, { one: string; className: string; px: number }> = {
  edit: { one: 'edit', className: 'stroke-ok', px: 6 },
  message: { one: 'message', className: 'stroke-accent', px: 10 },
  finding: { one: 'finding', className: 'stroke-guard', px: 12 },
  error: { one: 'error', className: 'stroke-bad', px: 14 },
}
const MARKS_PX = 24

type SliderProps = {
  events: readonly LogEvent[]
  shown: LogEvent
  marks: Marks
  onStep: (by: number) => void
  onTime: (time: number) => void
}

/** The line of time, with what is worth a look on it. */
function Slider({ events, shown, marks, onStep, onTime }: SliderProps) {
  const [first, last] = [events[0] ?? shown, events.at(-1) ?? shown]
  const [from, to] = [Date.parse(first.at), Date.parse(last.at)]
  const told = MARK_KINDS.map((kind) => count(marks.counts[kind], MARKS[kind].one)).join(', ')
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key]
    if (by === undefined) return
    event.preventDefault()
    onStep(by)
  }
  return (
    <div className="relative order-first h-6 min-w-0 flex-1 basis-full md:order-none md:basis-40">
      {/* The middle of the thumb goes from half its width to half its width before the end. */}
      <div aria-hidden className="pointer-events-none absolute inset-x-2 inset-y-0">
        <svg viewBox={`0 0 ${PLACES} ${MARKS_PX}`} preserveAspectRatio="none" className="size-full overflow-visible">
          {MARK_KINDS.map((kind) => (
            <path
              key={kind}
              d={marksPath(marks.times[kind], MARKS[kind].px, from, to)}
              vectorEffect="non-scaling-stroke"
              strokeWidth={2}
              className={MARKS[kind].className}
            />
          ))}
        </svg>
      </div>
      <input
        type="range"
        aria-label="Moment"
        aria-valuetext={`${clockSeconds(new Date(shown.at))}, event ${shown.seq} of ${last.seq}; on the line: ${told}`}
        title={told}
        min={from}
        max={Math.max(to, from + 1)}
        value={Math.min(Math.max(Date.parse(shown.at), from), to)}
        onKeyDown={onKeyDown}
        onChange={(event) => onTime(Number(event.target.value))}
        className="relative h-4 w-full cursor-pointer accent-accent"
      />
    </div>
  )
}

/** All marks of a kind are one shape: as elements of their own they would be hundreds that move with every event. */
function marksPath(times: readonly number[], px: number, from: number, to: number): string {
  const places = new Set(times.map((time) => Math.round(placeOf(time, from, to) * PLACES)))
  return [...places].map((place) => `M${place} ${MARKS_PX}v-${px}`).join('')
}

function Speeds({ speed, onSpeed }: { speed: Speed; onSpeed: (speed: Speed) => void }) {
  return (
    <div role="group" aria-label="Speed" className="flex">
      {SPEEDS.map((one) => (
        <button
          key={one}
          type="button"
          aria-pressed={one === speed}
          onClick={() => onSpeed(one)}
          className="h-6 min-w-7 cursor-pointer rounded px-1 tabular-nums hover:bg-raised hover:text-fg aria-pressed:bg-sunken aria-pressed:font-medium aria-pressed:text-fg"
        >
          {one}×
        </button>
      ))}
    </div>
  )
}
