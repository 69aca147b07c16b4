import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Problem } from '../api/problem'
import { FakeStream, frame, liveEvent, settle } from '../test/fakes'
import { follow, SILENCE_MS_MAX, waitMs, type StreamState } from './stream'

let server: FakeStream
let seen: number[]
let states: StreamState['kind'][]
let stop: () => void

function start(since?: number) {
  stop = follow({
    open: server.open,
    since,
    onEvent: (event) => seen.push(event.position),
    onState: (state) => states.push(state.kind),
  })
  return settle()
}

beforeEach(() => {
  vi.useFakeTimers()
  vi.spyOn(Math, 'random').mockReturnValue(0.5)
  server = new FakeStream()
  seen = []
  states = []
})

afterEach(() => {
  stop()
  vi.useRealTimers()
})

describe('a stream', () => {
  test('that is cut comes back behind the last event seen', async () => {
    await start(10)
    expect(server.last.since).toBe(10)
    await server.last.send(frame(liveEvent(2)) + frame(liveEvent(3)))
    await server.last.cut()
    expect(states).toEqual(['connecting', 'live', 'lost'])
    await vi.advanceTimersByTimeAsync(500)
    expect(server.last.since).toBe(30)
    await server.last.send(frame(liveEvent(4)))
    expect(seen).toEqual([20, 30, 40])
    expect(states.at(-1)).toBe('live')
  })

  test('drops what was seen before', async () => {
    await start(10)
    await server.last.send([1, 2, 2, 1, 3].map((seq) => frame(liveEvent(seq))).join(''))
    expect(seen).toEqual([20, 30])
  })

  test('that was cut in the middle of an event sees it once, after the return', async () => {
    await start()
    await server.last.send(frame(liveEvent(1)) + frame(liveEvent(2)).slice(0, 40))
    await server.last.cut()
    await vi.advanceTimersByTimeAsync(500)
    expect(server.last.since).toBe(10)
    await server.last.send(frame(liveEvent(2)))
    expect(seen).toEqual([10, 20])
  })

  test('that has seen no event comes back behind what it was told', async () => {
    await start()
    await server.last.send('event: hello\nid: 7\ndata: {"type":"hello","position":7}\n\n')
    await server.last.cut()
    await vi.advanceTimersByTimeAsync(500)
    expect(server.last.since).toBe(7)
    await server.last.send(': ping\nid: 9\n\nevent: bye\ndata: {"type":"bye","code":1001}\n\n')
    await server.last.cut()
    await vi.advanceTimersByTimeAsync(1000)
    expect(server.last.since).toBe(9)
    await server.last.send(frame(liveEvent(1)))
    expect(seen).toEqual([10])
  })

  test('passes over what is not an event', async () => {
    await start()
    await server.last.send('data: {"type":"ping"}\n\ndata: not json\n\ndata: null\n\n: keep-alive\n\n')
    await server.last.send(frame(liveEvent(1)))
    expect(seen).toEqual([10])
  })

  test('waits twice as long after each failure, up to a limit', async () => {
    server.refusal = () => new TypeError('failed to fetch')
    await start()
    const waits: number[] = []
    for (let i = 0; i < 8; i++) {
      const [before, began] = [server.attempts, Date.now()]
      while (server.attempts === before) await vi.advanceTimersByTimeAsync(100)
      waits.push(Date.now() - began)
    }
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 15000, 15000, 15000])
    expect([waitMs(1, 0), waitMs(1, 1), waitMs(50, 1)]).toEqual([250, 750, 22_500])
  })

  test('that held for a while is tried again soon', async () => {
    server.refusal = () => new Problem(503, 'database_unavailable', 'later')
    await start()
    await vi.advanceTimersByTimeAsync(10_000)
    server.refusal = undefined
    await vi.advanceTimersByTimeAsync(15_000)
    await vi.advanceTimersByTimeAsync(6_000)
    const before = server.attempts
    await server.last.cut()
    await vi.advanceTimersByTimeAsync(500)
    expect(server.attempts).toBe(before + 1)
  })

  test('that is accepted and dropped again and again is not hammered', async () => {
    await start()
    const began = Date.now()
    while (server.attempts < 7) {
      await server.last.cut()
      const before = server.attempts
      while (server.attempts === before) await vi.advanceTimersByTimeAsync(100)
    }
    expect(Date.now() - began).toBe(500 + 1000 + 2000 + 4000 + 8000 + 15000)
  })

  test('comes back at once when the network does', async () => {
    server.refusal = () => new TypeError('failed to fetch')
    await start()
    await vi.advanceTimersByTimeAsync(30_000)
    const before = server.attempts
    server.refusal = undefined
    window.dispatchEvent(new Event('online'))
    await settle()
    expect(server.attempts).toBe(before + 1)
    expect(states.at(-1)).toBe('live')
  })

  test('that says nothing is lost, and one that says it is there is not', async () => {
    await start()
    await vi.advanceTimersByTimeAsync(SILENCE_MS_MAX - 1)
    await server.last.send(': \n\n')
    await vi.advanceTimersByTimeAsync(SILENCE_MS_MAX - 1)
    expect(states.at(-1)).toBe('live')
    const quiet = server.last
    await vi.advanceTimersByTimeAsync(1_000)
    expect(quiet.isGivenUp()).toBe(true)
    expect(server.connections).toHaveLength(2)
  })

  test('that is refused for good is not tried again', async () => {
    server.refusal = () => new Problem(401, 'token_ended', 'the token has ended')
    await start()
    await vi.advanceTimersByTimeAsync(120_000)
    expect([server.attempts, states.at(-1)]).toEqual([1, 'refused'])
  })

  test('that was stopped says and asks nothing more', async () => {
    await start()
    const connection = server.last
    stop()
    await connection.send(frame(liveEvent(1))).catch(() => undefined)
    await vi.advanceTimersByTimeAsync(120_000)
    expect(connection.isGivenUp()).toBe(true)
    expect([seen, server.attempts]).toEqual([[], 1])
  })
})
