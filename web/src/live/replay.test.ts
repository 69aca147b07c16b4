import { describe, expect, test } from 'vitest'
import { folded } from './fold'
import type { LogEvent } from './log'
import { eventAt, foldMarks, nextStep, placeOf, PLACES, type Pace } from './replay'

const START = Date.parse('2026-11-16T09:00:00Z')

function events(...seconds: number[]): LogEvent[] {
  return seconds.map((second, n) => ({
    seq: n + 1,
    position: n + 1,
    type: 'agent.message',
    data: {},
    at: new Date(START + second * 1000).toISOString(),
  }))
}

function event(seq: number, type: string, data: unknown): LogEvent {
  return { seq, position: seq, type, data, at: new Date(START).toISOString() }
}

const pace = (change: Partial<Pace> = {}): Pace => ({ speed: 1, isIdleSkipped: true, ...change })

describe('playing again', () => {
  test.each([
    ['waits as long as it took', 0, pace(), { index: 1, waitMs: 4_000 }],
    ['or a part of it', 0, pace({ speed: 4 }), { index: 1, waitMs: 1_000 }],
    ['skips what is idle', 1, pace(), { index: 2, waitMs: 500 }],
    ['unless that is switched off', 1, pace({ isIdleSkipped: false }), { index: 2, waitMs: 60_000 }],
    ['takes what comes at once together', 2, pace(), { index: 4, waitMs: 100 }],
    ['ends at the end', 4, pace(), undefined],
  ])('%s', (_rule, index, at, step) => {
    expect(nextStep(events(0, 4, 64, 64.02, 64.04), index, at)).toEqual(step)
  })

  test('takes events whose clocks went backwards as they come', () => {
    expect(nextStep(events(10, 5), 0, pace())).toEqual({ index: 1, waitMs: 100 })
  })
})

describe('marks', () => {
  test('show edits, what people said, what the Guardian found and what went wrong', () => {
    const marks = folded(foldMarks, [
      event(1, 'agent.file_edited', {}),
      event(2, 'agent.message', {}),
      event(3, 'agent.message_injected', {}),
      event(4, 'check.completed', { passed: false }),
      event(5, 'check.completed', { passed: true }),
      event(6, 'guardian.finding', {}),
      event(7, 'guardian.cleared', {}),
    ])
    expect(marks.counts).toEqual({ edit: 1, message: 1, finding: 1, error: 1 })
    expect(marks.times).toEqual({ edit: [START], message: [START], finding: [START], error: [START] })
    expect(marks.errors).toEqual([4])
  })

  test('a command and the call that ran it fail once', () => {
    const marks = folded(foldMarks, [
      event(1, 'command.completed', { command_id: 't', exit_code: 2 }),
      event(2, 'agent.tool_completed', { tool_use_id: 't', exit_code: 2, is_error: true }),
      event(3, 'agent.tool_completed', { tool_use_id: 'u', exit_code: 0, is_error: false }),
    ])
    expect(marks.errors).toEqual([1])
    expect(marks.counts.error).toBe(1)
  })

  test('are counted whole, but no more are drawn than there is room for', () => {
    const many = events(...Array.from({ length: 5_000 }, (_, n) => n)).map((one) => ({ ...one, type: 'agent.file_edited' }))
    const { counts, times } = folded(foldMarks, many)
    expect(counts.edit).toBe(5_000)
    expect(times.edit.length).toBeLessThanOrEqual(PLACES + 1)
    const gaps = times.edit.slice(1).map((time, n) => time - (times.edit[n] ?? 0))
    expect(Math.max(...gaps)).toBeLessThanOrEqual((2 * 5_000_000) / PLACES)
  })
})

test('a place on the line of time, and back', () => {
  const all = events(0, 5, 10)
  expect(placeOf(START + 5_000, START, START + 10_000)).toBe(0.5)
  expect(placeOf(START, START, START)).toBe(1)
  expect(eventAt(all, START + 7_000)?.seq).toBe(2)
  expect(eventAt(all, START - 1)?.seq).toBe(1)
  expect(eventAt(all, START + 99_000)?.seq).toBe(3)
})
