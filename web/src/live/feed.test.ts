import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Problem } from '../api/problem'
import type { LiveEvent, StoredEvent } from '../api/types'
import { FakeStream, frame, liveEvent, settle, storedEvents } from '../test/fakes'
import { Feed, KEPT_MAX, type HistoryQuery } from './feed'

let server: FakeStream
let heard: LiveEvent[]
let asked: HistoryQuery[]
/** How many events the server has stored. */
let count: number
let failure: Problem | undefined
let feed: Feed

async function history(query: HistoryQuery): Promise<StoredEvent[]> {
  asked.push(query)
  if (failure) throw failure
  const last = Math.min(count, (query.before ?? Infinity) - 1)
  const first = Math.max(1, (query.after ?? 0) + 1, last - query.limit + 1)
  return storedEvents(first, last)
}

const seqs = () => feed.view().events.map((event) => event.seq)
const upTo = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i)
const flushed = () => vi.advanceTimersByTimeAsync(1_000)

beforeEach(() => {
  vi.useFakeTimers()
  vi.spyOn(Math, 'random').mockReturnValue(0.5)
  server = new FakeStream()
  heard = []
  asked = []
  count = 3
  failure = undefined
  feed = new Feed({ history, open: server.open, onEvent: (event) => heard.push(event), onOpen: () => undefined })
})

afterEach(() => {
  feed.stop()
  vi.useRealTimers()
})

async function start() {
  void feed.start()
  await settle()
}

describe('the feed', () => {
  test('goes on with the stream right behind its history', async () => {
    await start()
    expect(server.last.since).toBe(30)
    await server.last.send(frame(liveEvent(3)) + frame(liveEvent(4)))
    await flushed()
    expect(seqs()).toEqual([1, 2, 3, 4])
    expect(feed.view()).toMatchObject({ isLoading: false, hasEarlier: false, stream: { kind: 'live' } })
  })

  test('has no event twice and none too few after the server was gone', async () => {
    await start()
    await server.last.send(frame(liveEvent(4)))
    await server.last.cut()
    server.refusal = () => new TypeError('failed to fetch')
    await vi.advanceTimersByTimeAsync(5_000)
    expect(feed.view().stream.kind).toBe('lost')
    server.refusal = undefined
    await vi.advanceTimersByTimeAsync(20_000)
    expect(server.last.since).toBe(40)
    await server.last.send([4, 5, 6].map((seq) => frame(liveEvent(seq))).join(''))
    await flushed()
    expect(seqs()).toEqual([1, 2, 3, 4, 5, 6])
  })

  test('fills a gap in the stream from history', async () => {
    await start()
    count = 9
    await server.last.send(frame(liveEvent(9)))
    await flushed()
    expect(asked.at(-1)).toEqual({ limit: 200, after: 3, before: 9 })
    expect(seqs()).toEqual(upTo(1, 9))
  })

  test('fills a gap longer than a page', async () => {
    await start()
    count = 700
    await server.last.send(frame(liveEvent(700)))
    await flushed()
    expect(seqs()).toEqual(upTo(1, 700))
  })

  test('keeps a gap that cannot be filled and tries again with the next event', async () => {
    await start()
    count = 6
    failure = new Problem(503, 'database_unavailable', 'later')
    await server.last.send(frame(liveEvent(6)))
    await flushed()
    expect(seqs()).toEqual([1, 2, 3, 6])
    failure = undefined
    count = 7
    await server.last.send(frame(liveEvent(7)))
    await flushed()
    expect(seqs()).toEqual(upTo(1, 7))
  })

  test('misses nothing that happened between an empty history and the stream', async () => {
    count = 0
    const open = server.open
    server.open = async (since, signal) => {
      count = 2
      return open(since, signal)
    }
    feed = new Feed({ history, open: server.open, onEvent: () => undefined, onOpen: () => undefined })
    await start()
    expect(server.last.since).toBeUndefined()
    expect(seqs()).toEqual([1, 2])
  })

  test('tells a burst at once', async () => {
    await start()
    const told = vi.fn<() => void>()
    feed.subscribe(told)
    for (let seq = 4; seq <= 103; seq++) await server.last.send(frame(liveEvent(seq)))
    await flushed()
    expect(seqs()).toEqual(upTo(1, 103))
    expect(told).toHaveBeenCalledTimes(1)
  })

  test('tells of two hundred events a second at most five times', async () => {
    await start()
    await vi.advanceTimersByTimeAsync(1_000)
    const told = vi.fn<() => void>()
    feed.subscribe(told)
    for (let seq = 4; seq < 404; seq++) {
      await server.last.send(frame(liveEvent(seq)))
      await vi.advanceTimersByTimeAsync(5)
    }
    expect(told.mock.calls.length).toBeLessThanOrEqual(10)
    await flushed()
    expect(seqs()).toEqual(upTo(1, 403))
  })

  test('tells a page that is slow to show it less often', async () => {
    await start()
    const told = vi.fn<() => void>()
    feed.subscribe(told)
    feed.subscribe(() => setTimeout((events) => feed.shown(events), 150, feed.view().events))
    for (let seq = 4; seq < 804; seq++) {
      await server.last.send(frame(liveEvent(seq)))
      await vi.advanceTimersByTimeAsync(5)
    }
    // In four seconds: every 600 ms, after a first time that nobody could know of.
    expect(told.mock.calls.length).toBeLessThanOrEqual(8)
    await flushed()
    expect(seqs()).toEqual(upTo(1, 803))
  })

  test('hands on all that comes, and shows the sandbox’s own events', async () => {
    await start()
    const { seq: _seq, ...notice } = liveEvent(4, { event_type: 'SANDBOX_MESSAGE_STATE' })
    await server.last.send(frame(notice) + frame(liveEvent(5)))
    count = 5
    await flushed()
    expect(heard.map((event) => event.event_type)).toEqual(['SANDBOX_MESSAGE_STATE', 'SANDBOX_agent.message'])
    expect(seqs()).toEqual([1, 2, 3, 4, 5])
  })

  test('says why history is not to be had, and starts again when asked', async () => {
    failure = new Problem(404, 'sandbox_not_found', 'no such sandbox')
    await start()
    expect(feed.view()).toMatchObject({ isLoading: false, problem: { code: 'sandbox_not_found' } })
    expect(server.attempts).toBe(0)
    failure = undefined
    await start()
    expect([seqs(), feed.view().problem]).toEqual([[1, 2, 3], undefined])
  })

  test('loads earlier events page by page', async () => {
    count = 450
    await start()
    expect([seqs()[0], feed.view().hasEarlier]).toEqual([251, true])
    await feed.loadEarlier()
    await feed.loadEarlier()
    expect(seqs()).toEqual(upTo(1, 450))
    expect(feed.view()).toMatchObject({ hasEarlier: false, earlier: 'idle' })
  })

  test('forgets the oldest only while the reader follows the end', async () => {
    await start()
    const burst = upTo(4, KEPT_MAX + 100).map((seq) => frame(liveEvent(seq)))
    feed.setFollowing(false)
    await server.last.send(burst.join(''))
    await flushed()
    expect(seqs()).toHaveLength(KEPT_MAX + 100)
    feed.setFollowing(true)
    await server.last.send(frame(liveEvent(KEPT_MAX + 101)))
    await flushed()
    expect(seqs()).toEqual(upTo(102 + KEPT_MAX / 10, KEPT_MAX + 101))
    expect(feed.view().hasEarlier).toBe(true)
  })

  test('that was stopped and started again, as React does, runs once', async () => {
    void feed.start()
    feed.stop()
    await start()
    expect(server.attempts).toBe(1)
    await server.last.send(frame(liveEvent(4)))
    await flushed()
    expect(seqs()).toEqual([1, 2, 3, 4])
  })
})
