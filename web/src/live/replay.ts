// Playing a sandbox's events again at their own pace, and what of them is marked on the way. No React inside.

import { flag, number, text } from './fields'
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

export type MarkKind = 'edit' | 'error' | 'message'
export type Mark = { kind: MarkKind; seq: number; at: string }

/** What a reader looks for: files that changed, what went wrong, what people said. */
export function marksOf(events: readonly LogEvent[]): Mark[] {
  const failed = new Set<string>()
  return events.flatMap((event) => {
    const kind = markOf(event)
    if (!kind) return []
    // A command and the call that ran it fail as one.
    const id = kind === 'error' ? (text(event.data, 'tool_use_id') ?? text(event.data, 'command_id')) : undefined
    if (id !== undefined && failed.has(id)) return []
    if (id !== undefined) failed.add(id)
    return [{ kind, seq: event.seq, at: event.at }]
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
    case 'agent.error':
    case 'agent.stream_error':
    case 'agent.failed':
    case 'sandbox.failed':
    case 'sandbox.lost':
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
export function placeOf(at: string, first: string, last: string): number {
  const [from, to] = [Date.parse(first), Date.parse(last)]
  return to > from ? Math.min(1, Math.max(0, (Date.parse(at) - from) / (to - from))) : 1
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
