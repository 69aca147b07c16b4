// Playing a sandbox's events again at their own pace, and what of them is marked on the way. No React inside.

import { flag, number, text } from './fields'
import type { Folding } from './fold'
import type { LogEvent } from './log'

export const SPEEDS = [1, 4, 16] as const
export type Speed = (typeof SPEEDS)[number]

/** Nothing happening for longer than this is idle. */
const IDLE_MS = 10_000
/** What is left of it when it is skipped. */
const SKIPPED_MS = 500
/** Events closer together than this are shown in one step. */
const STEP_MS = 100

export type Pace = { speed: Speed; isIdleSkipped: boolean }

/** The event to show next after the one at `index`, and how long to wait for it; none at the end. */
export function nextStep(events: readonly LogEvent[], index: number, pace: Pace): { index: number; waitMs: number } | undefined {
  if (index >= events.length - 1) return undefined
  let waitMs = 0
  let at = index
  while (at < events.length - 1) {
    const more = gapMs(events[at], events[at + 1], pace)
    // At least one event on, and all that would come before anybody could see it.
    if (at > index && waitMs + more > STEP_MS) break
    waitMs += more
    at += 1
  }
  return { index: at, waitMs: Math.max(waitMs, STEP_MS) }
}

function gapMs(from: LogEvent | undefined, to: LogEvent | undefined, { speed, isIdleSkipped }: Pace): number {
  const gap = Math.max(0, timeOf(to) - timeOf(from))
  return (isIdleSkipped && gap > IDLE_MS ? SKIPPED_MS : gap) / speed
}

function timeOf(event: LogEvent | undefined): number {
  return event ? Date.parse(event.at) : 0
}

export const MARK_KINDS = ['edit', 'message', 'finding', 'error'] as const
export type MarkKind = (typeof MARK_KINDS)[number]

/** What a reader looks for: files that changed, what people said, what supervision found or did, what went wrong. */
export type Marks = {
  counts: Readonly<Record<MarkKind, number>>
  /** When, in milliseconds, as many as can be told apart on the line. */
  times: Readonly<Record<MarkKind, readonly number[]>>
  /** The `seq` of each. */
  errors: readonly number[]
}

/** Marks closer together than this part of the line look like one. */
export const PLACES = 400

export function foldMarks(): Folding<Marks> {
  const failed = new Set<string>()
  const errors: number[] = []
  const counts = { edit: 0, message: 0, finding: 0, error: 0 }
  const times: Record<MarkKind, readonly number[]> = { edit: [], message: [], finding: [], error: [] }
  const fresh: Record<MarkKind, number[]> = { edit: [], message: [], finding: [], error: [] }
  let marks: Marks | undefined
  return {
    add: (event) => {
      const kind = markOf(event)
      if (!kind) return
      // A command and the call that ran it fail as one.
      const id = kind === 'error' ? (text(event.data, 'tool_use_id') ?? text(event.data, 'command_id')) : undefined
      if (id !== undefined && failed.has(id)) return
      if (id !== undefined) failed.add(id)
      if (kind === 'error') errors.push(event.seq)
      counts[kind] += 1
      fresh[kind].push(timeOf(event))
      marks = undefined
    },
    view: () => {
      if (marks) return marks
      for (const kind of MARK_KINDS) times[kind] = apart([...times[kind], ...fresh[kind].splice(0)])
      marks = { counts: { ...counts }, times: { ...times }, errors: [...errors] }
      return marks
    },
  }
}

/** Once there are twice as many as there are places, those that would be drawn over another are left out. */
function apart(times: number[]): readonly number[] {
  if (times.length <= 2 * PLACES) return times
  const step = ((times.at(-1) ?? 0) - (times[0] ?? 0)) / PLACES
  let last = Number.NEGATIVE_INFINITY
  return times.filter((time) => {
    const isKept = time - last > step
    if (isKept) last = time
    return isKept
  })
}

function markOf({ type, data }: LogEvent): MarkKind | undefined {
  switch (type) {
    case 'agent.file_edited':
      return 'edit'
    case 'agent.user_message':
    case 'agent.message_injected':
    case 'agent.interrupted':
    case 'agent.waiting':
      return 'message'
    case 'guardian.finding':
    case 'guardian.steering.intervention':
    case 'conductor.conflict.found':
      return 'finding'
    case 'agent.error':
    case 'agent.stream_error':
    case 'agent.failed':
    case 'sandbox.failed':
    case 'sandbox.lost':
    case 'sandbox.unkept':
    case 'sandbox.discarded':
    case 'budget.exceeded':
    case 'egress.denied':
      return 'error'
    case 'agent.tool_completed':
      return flag(data, 'is_error') === true || (number(data, 'exit_code') ?? 0) !== 0 ? 'error' : undefined
    case 'command.completed':
      return (number(data, 'exit_code') ?? 0) !== 0 || number(data, 'signal') !== undefined ? 'error' : undefined
    case 'check.completed':
      return flag(data, 'passed') === false ? 'error' : undefined
    default:
      return undefined
  }
}

/** How far along the time between first and last, from 0 to 1. */
export function placeOf(time: number, from: number, to: number): number {
  return to > from ? Math.min(1, Math.max(0, (time - from) / (to - from))) : 1
}

/** The last event that had happened by then. */
export function eventAt(events: readonly LogEvent[], time: number): LogEvent | undefined {
  let [low, high] = [0, events.length - 1]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (timeOf(events[middle]) <= time) low = middle
    else high = middle - 1
  }
  return events[low]
}
