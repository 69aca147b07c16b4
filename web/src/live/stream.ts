// Keeps one live stream going: connects, resumes behind the last position seen, drops what was seen before, and waits
// ever longer between attempts while the server does not answer. No React inside.

import { asProblem, type Problem } from '../api/problem'
import type { LiveEvent } from '../api/types'
import { type Frame, frames } from './sse'

const WAIT_MS_FIRST = 500
const WAIT_MS_MAX = 15_000
/** The server says something every 30 s, so two words were lost. */
export const SILENCE_MS_MAX = 75_000
/** A connection that held this long was a good one; the next failure starts counting anew. */
const STEADY_MS = 5_000

export type StreamState =
  | { kind: 'connecting' }
  | { kind: 'live' }
  /** Lost, and trying again. `since` is when it was last live or first tried. */
  | { kind: 'lost'; since: Date; problem: Problem }
  /** Trying again would be refused again. */
  | { kind: 'refused'; problem: Problem }

export type StreamOptions = {
  open: (since: number | undefined, signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>
  /** Everything up to this position is known already. */
  since?: number | undefined
  onEvent: (event: LiveEvent) => void
  /** After every connect, before its first event. */
  onOpen?: () => void
  onState: (state: StreamState) => void
}

/** Runs until the returned function is called. */
export function follow(options: StreamOptions): () => void {
  const ended = new AbortController()
  void run(options, ended.signal)
  return () => ended.abort()
}

async function run({ open, since, onEvent, onOpen, onState }: StreamOptions, ended: AbortSignal) {
  let position = since
  let failures = 0
  let liveAt = new Date()
  onState({ kind: 'connecting' })
  while (!ended.aborted) {
    let openedAt = Number.POSITIVE_INFINITY
    const silence = new Silence(ended)
    try {
      const body = await open(position, silence.signal)
      openedAt = Date.now()
      silence.heard()
      onState({ kind: 'live' })
      onOpen?.()
      for await (const frame of frames(body)) {
        if (ended.aborted) return
        silence.heard()
        if (!frame) continue
        const event = parse(frame)
        const reached = event ? event.position : told(frame)
        if (reached === undefined || (position !== undefined && reached <= position)) continue
        position = reached
        if (event) onEvent(event)
      }
      throw new TypeError('the stream ended')
    } catch (error) {
      if (ended.aborted) return
      const problem = asProblem(error)
      if (openedAt !== Number.POSITIVE_INFINITY) liveAt = new Date()
      if (!problem.isPassing) {
        onState({ kind: 'refused', problem })
        return
      }
      failures = Date.now() - openedAt >= STEADY_MS ? 1 : failures + 1
      onState({ kind: 'lost', since: liveAt, problem })
    } finally {
      silence.stop()
    }
    await pause(waitMs(failures), ended)
  }
}

/** Half to one and a half times the nominal wait, so that many pages do not come back in step. */
export function waitMs(failures: number, random = Math.random()): number {
  return Math.min(WAIT_MS_MAX, WAIT_MS_FIRST * 2 ** (failures - 1)) * (0.5 + random)
}

/** How far the stream has come, where a frame says only that: its first one does, and its signs of life. */
function told({ event, id, data }: Frame): number | undefined {
  const says = event === 'hello' || (event === 'message' && data === undefined)
  return says && id !== undefined && /^\d+$/.test(id) ? Number(id) : undefined
}

function parse({ event: name, data }: Frame): LiveEvent | undefined {
  if (name !== 'message' || data === undefined) return undefined
  try {
    const event: unknown = JSON.parse(data)
    const isEvent = typeof event === 'object' && event !== null && 'position' in event
    return isEvent && typeof event.position === 'number' ? (event as LiveEvent) : undefined
  } catch {
    return undefined
  }
}

/** Gives up on a connection that has said nothing for too long, for a dead one often looks like a quiet one. */
class Silence {
  readonly #lost = new AbortController()
  readonly signal: AbortSignal
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(ended: AbortSignal) {
    this.signal = AbortSignal.any([ended, this.#lost.signal])
    this.heard()
  }

  heard() {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#lost.abort(new TypeError('the stream fell silent')), SILENCE_MS_MAX)
  }

  stop() {
    clearTimeout(this.#timer)
    this.#lost.abort()
  }
}

/** Waits, but no longer than until the network or the reader is back. */
function pause(ms: number, ended: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      window.removeEventListener('online', done)
      document.removeEventListener('visibilitychange', shown)
      ended.removeEventListener('abort', done)
      resolve()
    }
    const shown = () => {
      if (document.visibilityState === 'visible') done()
    }
    const timer = setTimeout(done, ms)
    window.addEventListener('online', done)
    document.addEventListener('visibilitychange', shown)
    ended.addEventListener('abort', done)
  })
}
