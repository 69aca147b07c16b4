import { useSyncExternalStore } from 'react'
import { ago, clockSeconds, duration, whole } from './time'

const TICK_MS = 1_000

const listeners = new Set<() => void>()
let now = new Date()
let timer: ReturnType<typeof setInterval> | undefined

/** One timer for all times on the page. */
function subscribe(listener: () => void) {
  listeners.add(listener)
  timer ??= setInterval(() => {
    now = new Date()
    for (const told of listeners) told()
  }, TICK_MS)
  return () => {
    listeners.delete(listener)
    if (listeners.size === 0) {
      clearInterval(timer)
      timer = undefined
    }
  }
}

type Late = 'text-warn' | 'text-bad'

/** Says by its colour that something should have come again by now: after twice its time, and after three times. */
export function Beat({ at, everyMs }: { at: string | null | undefined; everyMs: number }) {
  const late = useSyncExternalStore(subscribe, (): Late | undefined => {
    const missed = at ? (now.getTime() - Date.parse(at)) / everyMs : 0
    return missed > 3 ? 'text-bad' : missed > 2 ? 'text-warn' : undefined
  })
  return (
    <span className={late}>
      <Ago at={at} none="none yet" />
      {late && ' late'}
    </span>
  )
}

/** How long ago, going on by itself. */
export function Ago({ at, none = '–' }: { at: string | null | undefined; none?: string }) {
  // The text, not the time, is the snapshot: nothing is rendered while it stays the same.
  const words = useSyncExternalStore(subscribe, () => (at ? ago(new Date(at), now) : none))
  if (!at) return <span className="text-subtle">{none}</span>
  return (
    <time dateTime={at} title={whole(new Date(at))} className="tabular-nums whitespace-nowrap">
      {words}
    </time>
  )
}

/** How long something took, or has taken until now. */
export function Took({ from, to }: { from: string; to: string | null | undefined }) {
  const words = useSyncExternalStore(subscribe, () => {
    const ms = (to ? Date.parse(to) : now.getTime()) - Date.parse(from)
    // What goes on is told in whole seconds.
    return duration(to ? ms : Math.round(ms / 1000) * 1000)
  })
  return <span className="tabular-nums whitespace-nowrap">{words}</span>
}

export function Clock({ at }: { at: string }) {
  const time = new Date(at)
  return (
    <time dateTime={at} title={whole(time)} className="tabular-nums whitespace-nowrap">
      {clockSeconds(time)}
    </time>
  )
}
