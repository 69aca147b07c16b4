// A sandbox's events as a page shows them: the newest page of history, then the stream from right behind it, holes
// filled from history. Changes are told in batches, so that a burst costs one rendering. No React inside.

import { asProblem, type Problem } from '../api/problem'
import type { LiveEvent, StoredEvent } from '../api/types'
import { EventLog, ofLive, ofStored, type LogEvent } from './log'
import { follow, type StreamOptions, type StreamState } from './stream'

const PAGE = 200
/** How many events are kept while the reader follows the end. */
export const KEPT_MAX = 20_000
const FLUSH_MS = 100
/** With so many events in a second, changes are told less often. */
const BUSY_PER_S = 100
const FLUSH_MS_BUSY = 250
const FLUSH_MS_HIDDEN = 1_000
/** A page that takes long to show what it was told is told less often, so that it shows events for this part of the time at most. */
const SHOWING_PART = 0.25
const FLUSH_MS_MAX = 1_000

export type HistoryQuery = { limit: number; after?: number; before?: number }

export type FeedOptions = {
  history: (query: HistoryQuery) => Promise<StoredEvent[]>
  open: StreamOptions['open']
  /** All that comes, the sandbox's own events and notices about it. */
  onEvent: (event: LiveEvent) => void
  /** After every connect: what is not an event of the sandbox may have been missed. */
  onOpen: () => void
}

export type FeedView = {
  events: readonly LogEvent[]
  /** Until the first page of history is there, or refused. */
  isLoading: boolean
  problem: Problem | undefined
  hasEarlier: boolean
  earlier: 'idle' | 'loading' | Problem
  stream: StreamState
}

export class Feed {
  readonly #options: FeedOptions
  readonly #log = new EventLog()
  readonly #listeners = new Set<() => void>()
  #view: FeedView = {
    events: [],
    isLoading: true,
    problem: undefined,
    hasEarlier: false,
    earlier: 'idle',
    stream: { kind: 'connecting' },
  }
  #queue: LogEvent[] = []
  #flushTimer: ReturnType<typeof setTimeout> | undefined
  #stopStream: (() => void) | undefined
  /** Counts starts; what an earlier run still awaits is dropped. */
  #run = 0
  #filling = false
  #isFollowing = true
  #isBusy = false
  #flushedAt = 0
  #toldAt = Date.now()
  /** How long it took to show what was told last. */
  #showMs = 0

  constructor(options: FeedOptions) {
    this.#options = options
  }

  view = (): FeedView => this.#view

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }

  async start() {
    this.stop()
    const run = this.#run
    this.#change({ isLoading: true, problem: undefined, stream: { kind: 'connecting' } })
    try {
      await this.#catchUp(run)
    } catch (error) {
      if (run === this.#run) this.#change({ isLoading: false, problem: asProblem(error) })
      return
    }
    if (run !== this.#run) return
    this.#change({ isLoading: false })
    this.#stopStream = follow({
      open: this.#options.open,
      since: this.#log.last?.position,
      onEvent: (event) => this.#take(event),
      onOpen: () => this.#opened(run),
      onState: (stream) => this.#change({ stream }),
    })
  }

  stop() {
    this.#run += 1
    this.#stopStream?.()
    this.#stopStream = undefined
    clearTimeout(this.#flushTimer)
    this.#flushTimer = undefined
    this.#queue = []
    this.#filling = false
  }

  /** Whether the reader is at the end; only then may the oldest go. */
  setFollowing(isFollowing: boolean) {
    this.#isFollowing = isFollowing
  }

  /** Said by the page once it shows these, with all that stands beside them. */
  shown(events: readonly LogEvent[]) {
    const isLast = events === this.#view.events
    this.#showMs = isLast ? Date.now() - this.#toldAt : Number.POSITIVE_INFINITY
  }

  async loadEarlier() {
    const first = this.#log.events[0]
    if (!first || this.#view.earlier === 'loading') return
    const run = this.#run
    this.#change({ earlier: 'loading' })
    try {
      const page = await this.#options.history({ limit: PAGE, before: first.seq })
      if (run !== this.#run) return
      this.#log.add(page.map(ofStored))
      this.#show({ earlier: 'idle' })
    } catch (error) {
      if (run === this.#run) this.#change({ earlier: asProblem(error) })
    }
  }

  #opened(run: number) {
    this.#options.onOpen()
    // With nothing known there was no position to begin behind: what happened before the stream opened is asked for.
    if (!this.#log.last) void this.#catchUp(run).catch(() => undefined)
    void this.#fill(run)
  }

  /** The newest page. After a restart it may leave a hole behind what is kept, which is then filled. */
  async #catchUp(run: number) {
    const page = await this.#options.history({ limit: PAGE })
    if (run !== this.#run) return
    this.#log.add(page.map(ofStored))
    this.#show({})
  }

  #take(event: LiveEvent) {
    this.#options.onEvent(event)
    const own = ofLive(event)
    if (!own) return
    this.#queue.push(own)
    this.#flushTimer ??= setTimeout(() => this.#flush(), this.#waitMs())
  }

  #waitMs(): number {
    if (document.visibilityState === 'hidden') return FLUSH_MS_HIDDEN
    if (!this.#isBusy) return FLUSH_MS
    return Math.min(FLUSH_MS_MAX, Math.max(FLUSH_MS_BUSY, this.#showMs / SHOWING_PART))
  }

  #flush() {
    this.#flushTimer = undefined
    const queue = this.#queue
    this.#queue = []
    const seconds = (Date.now() - this.#flushedAt) / 1000
    this.#isBusy = queue.length > BUSY_PER_S * seconds
    this.#flushedAt = Date.now()
    if (!this.#log.add(queue)) return
    if (this.#isFollowing) this.#log.trim(KEPT_MAX)
    this.#show({})
    void this.#fill(this.#run)
  }

  /** Fetches what is missing between events that are there. A failure leaves the hole shown until the next chance. */
  async #fill(run: number) {
    if (this.#filling) return
    this.#filling = true
    try {
      for (let hole = this.#log.hole(); hole && run === this.#run; hole = this.#log.hole()) {
        const page = await this.#options.history({ limit: PAGE, ...hole })
        if (run !== this.#run || !this.#log.add(page.map(ofStored))) return
        this.#show({})
      }
    } catch {
      // The list shows the hole.
    } finally {
      if (run === this.#run) this.#filling = false
    }
  }

  #show(change: Partial<FeedView>) {
    this.#toldAt = Date.now()
    this.#change({ ...change, events: this.#log.events, hasEarlier: this.#log.hasEarlier })
  }

  #change(change: Partial<FeedView>) {
    this.#view = { ...this.#view, ...change }
    for (const listener of this.#listeners) listener()
  }
}
