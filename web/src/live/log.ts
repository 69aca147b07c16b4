// The events of one sandbox, in the order of their `seq` and each once, however often and in whatever order they
// come. Numbers are dense, so a missing one is a hole that can be named and filled. No React inside.

import type { LiveEvent, StoredEvent } from '../api/types'

export type LogEvent = {
  seq: number
  /** Its place in the order of everything. */
  position: number
  type: string
  /** As the worker wrote it: of any shape, and not to be trusted. */
  data: unknown
  at: string
}

export type Hole = { after: number; before: number }

const LIVE_PREFIX = 'SANDBOX_'

export function ofStored(event: StoredEvent): LogEvent {
  return {
    seq: event.seq,
    position: Number(event.id.replace(/^evt-/, '')),
    type: event.event_type,
    data: event.event_data,
    at: event.created_at,
  }
}

/** None for a notice about the sandbox, which is not one of its own events. */
export function ofLive(event: LiveEvent): LogEvent | undefined {
  if (event.seq === undefined || event.seq === null) return undefined
  const type = event.event_type.startsWith(LIVE_PREFIX) ? event.event_type.slice(LIVE_PREFIX.length) : event.event_type
  return { seq: event.seq, position: event.position, type, data: ownData(event.payload), at: event.timestamp }
}

/** Without what the stream adds to the data, so that an event looks the same whichever way it came. */
function ownData(payload: Record<string, unknown>): unknown {
  const { source: _source, original_event_type: _type, ...data } = payload
  return data
}

export class EventLog {
  /** A new array after each change, so that readers see a change by identity. */
  events: readonly LogEvent[] = []
  /** So that nobody looks for a hole among events that came without one. */
  #mayHaveHole = false

  get last(): LogEvent | undefined {
    return this.events.at(-1)
  }

  /** Whether anything was new. */
  add(incoming: readonly LogEvent[]): boolean {
    if (this.#areNext(incoming)) {
      const first = this.last?.seq ?? incoming[0]?.seq ?? 0
      this.#mayHaveHole ||= (incoming.at(-1)?.seq ?? first) - first > incoming.length - (this.last ? 0 : 1)
      this.events = [...this.events, ...incoming]
      return incoming.length > 0
    }
    const known = new Set(this.events.map((event) => event.seq))
    const fresh = incoming.filter((event) => !known.has(event.seq) && known.add(event.seq))
    if (fresh.length === 0) return false
    const inOrder = [...this.events, ...fresh]
    inOrder.sort((a, b) => a.seq - b.seq)
    this.events = inOrder
    this.#mayHaveHole = true
    return true
  }

  /** Whether they all come behind the last one, as they mostly do. */
  #areNext(incoming: readonly LogEvent[]): boolean {
    let before = this.last?.seq ?? 0
    return incoming.every((event) => {
      const isNext = event.seq > before
      before = event.seq
      return isNext
    })
  }

  /** With more than `max`, forgets the oldest tenth, so that not every event more is a cut; they can be loaded again. */
  trim(max: number) {
    if (this.events.length > max) this.events = this.events.slice(-Math.ceil(max * 0.9))
  }

  /** Whether there are events before the first one kept. */
  get hasEarlier(): boolean {
    return (this.events[0]?.seq ?? 1) > 1
  }

  /** The newest hole between kept events: what is missing where the reader most likely looks. */
  hole(): Hole | undefined {
    if (!this.#mayHaveHole) return undefined
    for (let i = this.events.length - 1; i > 0; i--) {
      const [before, after] = [this.events[i], this.events[i - 1]]
      if (before && after && before.seq > after.seq + 1) return { after: after.seq, before: before.seq }
    }
    this.#mayHaveHole = false
    return undefined
  }
}
