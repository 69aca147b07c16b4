import { act, fireEvent, render, screen } from '@testing-library/react'
import { useState } from 'react'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { LogEvent } from '../../live/log'
import { Replay } from './Replay'

const START = Date.parse('2026-11-16T09:00:00Z')
let at: number | undefined

function event(seq: number, second: number, type = 'agent.message', data: unknown = {}): LogEvent {
  return { seq, position: seq, type, data, at: new Date(START + second * 1000).toISOString() }
}

const EVENTS = [
  event(1, 0),
  event(2, 2, 'agent.file_edited'),
  event(3, 4, 'agent.tool_completed', { is_error: true, tool_use_id: 't' }),
  event(4, 104),
]

function Host({ from }: { from: number | undefined }) {
  const [now, setNow] = useState(from)
  const onAt = (to: number | undefined) => {
    at = to
    setNow(to)
  }
  return <Replay events={EVENTS} at={now} onAt={onAt} />
}

function show(from: number | undefined) {
  at = from
  render(<Host from={from} />)
}

const press = (name: string) => fireEvent.click(screen.getByRole('button', { name }))
const key = (pressed: string) => fireEvent.keyDown(document.body, { key: pressed })
const wait = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms))

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('a replay', () => {
  test('plays from the beginning to the end at the pace it had, without what was idle', async () => {
    show(undefined)
    press('Play')
    expect(at).toBe(1)
    await wait(1_900)
    expect(at).toBe(1)
    await wait(200)
    expect(at).toBe(2)
    await wait(2_000)
    expect(at).toBe(3)
    await wait(600)
    expect([at, screen.getByRole('button', { name: 'Play' }).title]).toEqual([undefined, 'Play'])
  })

  test('plays faster, and waits through idle time when asked to', async () => {
    show(1)
    press('16×')
    fireEvent.click(screen.getByLabelText('skip idle'))
    press('Play')
    await wait(125)
    expect(at).toBe(2)
    await wait(125)
    expect(at).toBe(3)
    await wait(6_000)
    expect(at).toBe(3)
    await wait(300)
    expect(at).toBeUndefined()
  })

  test('stops when somebody steps', async () => {
    show(1)
    press('Play')
    press('One event on')
    expect(at).toBe(2)
    await wait(10_000)
    expect(at).toBe(2)
  })

  test('obeys its keys', () => {
    show(2)
    key('ArrowLeft')
    expect(at).toBe(1)
    key('ArrowRight')
    expect(at).toBe(2)
    key('e')
    expect(at).toBe(3)
    key(' ')
    expect(screen.getByRole('button', { name: 'Pause' })).toBeTruthy()
  })

  test('is dragged along time, and moved by event with arrows', () => {
    show(undefined)
    const slider = screen.getByRole('slider', { name: 'Moment' })
    expect(slider.getAttribute('aria-valuetext')).toContain('1 edit, 0 messages, 0 findings, 1 error')
    fireEvent.change(slider, { target: { value: START + 3_000 } })
    expect(at).toBe(2)
    fireEvent.keyDown(slider, { key: 'ArrowRight' })
    expect(at).toBe(3)
  })
})
