import { act, fireEvent, render, screen } from '@testing-library/react'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { tell } from './toast'
import { Toasts } from './Toasts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => {
  act(() => tell(undefined))
  vi.useRealTimers()
})

const show = (undo: () => Promise<unknown>) => {
  render(<Toasts />)
  act(() => tell({ words: 'Cancelled.', undo }))
}
const wait = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms))

test('what was done is told for a while, and taken back when asked', async () => {
  const undo = vi.fn<() => Promise<unknown>>(() => Promise.resolve())
  show(undo)
  expect(screen.getByRole('status').textContent).toContain('Cancelled.')
  fireEvent.click(screen.getByRole('button', { name: 'Undo' }))
  expect(undo).toHaveBeenCalledOnce()
  await wait(0)
  expect(screen.queryByText('Cancelled.')).toBeNull()
})

test('it goes by itself, but not while somebody is at it', async () => {
  show(() => Promise.resolve())
  fireEvent.focus(screen.getByRole('button', { name: 'Undo' }))
  await wait(60_000)
  expect(screen.getByText('Cancelled.')).toBeTruthy()
  fireEvent.blur(screen.getByRole('button', { name: 'Undo' }))
  await wait(9_000)
  expect(screen.getByText('Cancelled.')).toBeTruthy()
  await wait(1_500)
  expect(screen.queryByText('Cancelled.')).toBeNull()
})

test('the next one has its whole time', async () => {
  show(() => Promise.resolve())
  await wait(9_000)
  act(() => tell({ words: 'Cancelled.', undo: () => Promise.resolve() }))
  await wait(9_000)
  expect(screen.getByText('Cancelled.')).toBeTruthy()
})

test('what cannot be taken back says why, and stays', async () => {
  show(() => Promise.reject(new Error('it has begun')))
  fireEvent.click(screen.getByRole('button', { name: 'Undo' }))
  await wait(20_000)
  expect(screen.getByText('Not undone: it has begun')).toBeTruthy()
})
