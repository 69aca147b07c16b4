// What ever more events add up to, kept up as they come: an event costs only itself, however many came before it. No
// React inside.

import type { LogEvent } from './log'

/** Which of a growing list of events were there before. */
export class Seen {
  #count = 0
  #first: LogEvent | undefined
  #last: LogEvent | undefined

  /** Those behind what was seen; where that is different now, all of them. */
  next(events: readonly LogEvent[]): { isAnew: boolean; fresh: readonly LogEvent[] } {
    const isLonger = this.#count > 0 && events[0] === this.#first && events[this.#count - 1] === this.#last
    const fresh = isLonger ? events.slice(this.#count) : events
    this.#count = events.length
    this.#first = events[0]
    this.#last = events.at(-1)
    return { isAnew: !isLonger, fresh }
  }
}

export type Folding<T> = {
  add: (event: LogEvent) => void
  /** What there is so far; the same object while nothing in it changed. */
  view: () => T
}

/** Begins anew only where events were taken away or came in between. */
export class Fold<T> {
  readonly #begin: () => Folding<T>
  readonly #seen = new Seen()
  #folding: Folding<T>

  constructor(begin: () => Folding<T>) {
    this.#begin = begin
    this.#folding = begin()
  }

  update(events: readonly LogEvent[]): T {
    const { isAnew, fresh } = this.#seen.next(events)
    if (isAnew) this.#folding = this.#begin()
    for (const event of fresh) this.#folding.add(event)
    return this.#folding.view()
  }
}

/** Of events that all are there. */
export function folded<T>(begin: () => Folding<T>, events: readonly LogEvent[]): T {
  return new Fold(begin).update(events)
}
