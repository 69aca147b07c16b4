import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { fireEvent, render, screen, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { describe, expect, test, vi } from 'vitest'
import { ofStored, type LogEvent } from '../../live/log'
import { Rows } from '../../live/rows'
import { storedEvent } from '../../test/fakes'
import { EventList } from './EventList'

const none = () => undefined
const queries = new QueryClient()
const events = (...seqs: number[]) => seqs.map((seq) => ofStored(storedEvent(seq)))

function list(shown: readonly LogEvent[], change: Partial<Parameters<typeof EventList>[0]> = {}) {
  return (
    <QueryClientProvider client={queries}>
      <EventList
        sandboxId="sbx-1"
        rows={new Rows().update(shown)}
        last={shown.at(-1)?.seq ?? 0}
        hasEarlier={false}
        isLoadingEarlier={false}
        onEarlier={none}
        onFollow={none}
        onSelect={none}
        onFile={none}
        {...change}
      />
    </QueryClientProvider>
  )
}

const rows = () => screen.getAllByRole('listitem')
const texts = () => rows().map((item) => within(item).queryByText(/^event \d+$/)?.textContent)

describe('the list of events', () => {
  test('shows the newest last and each once', () => {
    const { rerender } = render(list(events(1, 2)))
    rerender(list(events(1, 2, 3)))
    expect(texts()).toEqual(['event 1', 'event 2', 'event 3'])
  })

  test('keeps what the reader opened, whatever comes before or after it', async () => {
    const { rerender } = render(list(events(2, 3)))
    await userEvent.click(within(rows()[0] as HTMLElement).getByRole('button', { name: 'Data' }))
    rerender(list(events(1, 2, 3, 4)))
    const isOpen = rows().map((row) => within(row).getByRole('button', { name: 'Data' }).getAttribute('aria-expanded'))
    expect(isOpen).toEqual(['false', 'true', 'false', 'false'])
  })

  test('has few elements for ten thousand events', () => {
    const all = Array.from({ length: 10_000 }, (_, i) => ofStored(storedEvent(i + 1)))
    const { container } = render(list(all))
    expect(rows().length).toBeGreaterThan(10)
    expect(container.querySelectorAll('*').length).toBeLessThan(1_500)
  })

  test('shows what a helper did below its call, when asked', async () => {
    const call = { tool: 'Task', tool_use_id: 'h', input: { description: 'look around' }, subagent_type: 'explorer' }
    const below = { content: 'deep down', parent_tool_use_id: 'h' }
    render(
      list([
        { ...ofStored(storedEvent(1)), type: 'agent.subagent_invoked', data: call },
        { ...ofStored(storedEvent(2)), data: below },
      ]),
    )
    expect(screen.queryByText('deep down')).toBeNull()
    await userEvent.click(screen.getByRole('button', { name: /Helper explorer/ }))
    expect(screen.getByText('deep down')).toBeTruthy()
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

  test('lets go at one turn of the wheel upwards, and takes hold with End', () => {
    const onFollow = vi.fn<(isFollowing: boolean) => void>()
    render(list(events(1, 2), { onFollow }))
    const log = screen.getByRole('log')
    Object.defineProperty(log, 'scrollHeight', { configurable: true, value: 1000 })
    fireEvent.wheel(log, { deltaY: 20 })
    expect(onFollow).not.toHaveBeenCalled()
    fireEvent.wheel(log, { deltaY: -20 })
    expect(onFollow).toHaveBeenLastCalledWith(false)
    fireEvent.keyDown(log, { key: 'End' })
    expect(onFollow).toHaveBeenLastCalledWith(true)
  })

  test('points at the event of a link instead of following the end', () => {
    render(list(events(1, 2, 3), { selected: 2 }))
    const current = rows().map((row) => within(row).getByTitle('Link to this event').getAttribute('aria-current'))
    expect(current).toEqual([null, 'true', null])
    expect(screen.getByRole('button', { name: 'Latest' })).toBeTruthy()
  })

  test('offers earlier events', async () => {
    const onEarlier = vi.fn<() => void>()
    render(list(events(7), { hasEarlier: true, onEarlier }))
    await userEvent.click(screen.getByRole('button', { name: 'Show earlier events' }))
    expect(onEarlier).toHaveBeenCalledOnce()
  })
})
