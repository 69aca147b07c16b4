import { describe, expect, test } from 'vitest'
import { liveEvent, storedEvent } from '../test/fakes'
import { EventLog, ofLive, ofStored } from './log'

const stored = (...seqs: number[]) => seqs.map((seq) => ofStored(storedEvent(seq)))
const seqs = (log: EventLog) => log.events.map((event) => event.seq)

describe('the log', () => {
  test('has each event once and in order, however they come', () => {
    const log = new EventLog()
    expect(log.add(stored(3, 1))).toBe(true)
    expect(log.add(stored(2, 2, 3, 4))).toBe(true)
    expect(seqs(log)).toEqual([1, 2, 3, 4])
    const before = log.events
    expect(log.add(stored(4, 1))).toBe(false)
    expect(log.events).toBe(before)
  })

  test('names its newest hole, and none when it has none', () => {
    const log = new EventLog()
    expect(log.hole()).toBeUndefined()
    log.add(stored(5, 6))
    expect(log.hole()).toBeUndefined()
    log.add(stored(2, 9))
    expect(log.hole()).toEqual({ after: 6, before: 9 })
    log.add(stored(7, 8))
    expect(log.hole()).toEqual({ after: 2, before: 5 })
  })

  test('forgets the oldest first and knows that they can be had', () => {
    const log = new EventLog()
    log.add(stored(1, 2, 3))
    expect(log.hasEarlier).toBe(false)
    log.trim(2)
    expect([seqs(log), log.hasEarlier]).toEqual([[2, 3], true])
  })

  test('has the same event from history and from the stream', () => {
    expect(ofLive(liveEvent(7))).toEqual(ofStored(storedEvent(7)))
  })

  test('has no notices', () => {
    const { seq: _seq, ...notice } = liveEvent(1, { event_type: 'SANDBOX_ENDED' })
    expect(ofLive(notice)).toBeUndefined()
  })
})
