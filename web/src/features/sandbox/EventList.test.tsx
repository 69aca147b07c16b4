import { fireEvent, render, screen, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { describe, expect, test, vi } from 'vitest'
import { ofStored, type LogEvent } from '../../live/log'
import { storedEvent } from '../../test/fakes'
import { EventList } from './EventList'

const none = () => undefined
const events = (...seqs: number[]) => seqs.map((seq) => ofStored(storedEvent(seq)))

function list(shown: readonly LogEvent[], change: Partial<Parameters<typeof EventList>[0]> = {}) {
  return (
    <EventList events={shown} hasEarlier={false} isLoadingEarlier={false} onEarlier={none} onFollow={none} {...change} />
  )
}

const texts = () => screen.getAllByRole('listitem').map((item) => within(item).queryByText(/^event \d+$/)?.textContent)

describe('the list of events', () => {
  test('shows the newest last and each once', () => {
    const { rerender } = render(list(events(1, 2)))
    rerender(list(events(1, 2, 3)))
    expect(texts()).toEqual(['event 1', 'event 2', 'event 3'])
  })

  test('keeps the elements of rows that stay, so that nothing the reader opened closes', async () => {
    const { rerender } = render(list(events(2, 3)))
    await userEvent.click(within(screen.getAllByRole('listitem')[0] as HTMLElement).getByRole('button', { name: 'Data' }))
    const before = screen.getAllByRole('listitem')[0]
    rerender(list(events(1, 2, 3, 4)))
    expect(screen.getAllByRole('listitem')[1]).toBe(before)
    expect(screen.getByRole('button', { name: 'Hide data' })).toBeTruthy()
  })

  test('shows what an agent wrote as text, never as markup', async () => {
    const evil = '<img src=x onerror=alert(1)> <script>alert(2)</script> \u001b[31mred\u001b[0m \u202Eback'
    const { container } = render(list([{ ...ofStored(storedEvent(1)), type: '<b>type</b>', data: { content: evil } }]))
    await userEvent.click(screen.getByRole('button', { name: 'Data' }))
    expect(container.querySelectorAll('img, script, b')).toHaveLength(0)
    expect(screen.getByText('<img src=x onerror=alert(1)> <script>alert(2)</script> red back')).toBeTruthy()
    expect(screen.getByText('<b>type</b>')).toBeTruthy()
  })

  test('cuts a long text until all of it is asked for', async () => {
    const content = Array.from({ length: 50 }, (_, i) => `line ${i}`).join('\n')
    render(list([{ ...ofStored(storedEvent(1)), data: { content } }]))
    expect(screen.queryByText(/line 49/)).toBeNull()
    await userEvent.click(screen.getByRole('button', { name: 'Show all' }))
    expect(screen.getByText(/line 49/)).toBeTruthy()
  })

  test('says how many are missing', () => {
    render(list(events(1, 5)))
    expect(screen.getByText('3 events in between not loaded yet')).toBeTruthy()
  })

  test('follows the end, lets go when the reader leaves it, and takes hold again', async () => {
    const onFollow = vi.fn<(isFollowing: boolean) => void>()
    const { rerender } = render(list(events(1, 2), { onFollow }))
    const log = screen.getByRole('log')
    Object.defineProperties(log, {
      scrollHeight: { configurable: true, value: 1000 },
      clientHeight: { configurable: true, value: 200 },
    })
    rerender(list(events(1, 2, 3), { onFollow }))
    expect(log.scrollTop).toBe(1000)

    log.scrollTop = 100
    fireEvent.scroll(log)
    expect(onFollow).toHaveBeenLastCalledWith(false)
    rerender(list(events(1, 2, 3, 4, 5), { onFollow }))
    expect(log.scrollTop).toBe(100)

    await userEvent.click(screen.getByRole('button', { name: '2 new' }))
    expect(onFollow).toHaveBeenLastCalledWith(true)
    expect(log.scrollTop).toBe(1000)
    expect(screen.queryByRole('button', { name: /new|Latest/ })).toBeNull()
  })

  test('offers earlier events', async () => {
    const onEarlier = vi.fn<() => void>()
    render(list(events(7), { hasEarlier: true, onEarlier }))
    await userEvent.click(screen.getByRole('button', { name: 'Show earlier events' }))
    expect(onEarlier).toHaveBeenCalledOnce()
  })
})
