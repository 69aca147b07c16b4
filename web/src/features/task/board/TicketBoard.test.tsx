import { screen, waitFor, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { useState } from 'react'
import { beforeEach, describe, expect, test } from 'vitest'
import type { Role, Ticket } from '../../../api/types'
import { Toasts } from '../../../app/Toasts'
import { liveEvent } from '../../../test/fakes'
import { refused, serve, showPage, type Asked, type Served } from '../../../test/page'
import { BoardPage } from './BoardPage'
import type { BoardSearch } from './search'

const NOW = '2026-11-16T09:00:00Z'
let tickets: Ticket[]
let search: BoardSearch
let isRefused: boolean
let served: Served

function ticket(number: number, more: Partial<Ticket> = {}): Ticket {
  const base = { id: `tkt-${number}`, project_id: 'prj-1', number, title: `Ticket ${number}`, description: '', ticket_type: 'bug', priority: 'MEDIUM', status: 'backlog' }
  return { ...base, created_at: NOW, updated_at: NOW, ...more } as Ticket
}

function answer({ method, path, body }: Asked): unknown {
  if (method === 'PATCH') {
    if (isRefused) return refused(409, 'no', 'it is not to be moved')
    tickets = tickets.map((one) => (path.endsWith(one.id) ? { ...one, ...(body as Partial<Ticket>) } : one))
    return tickets[0]
  }
  if (path === '/tickets') return { items: tickets, next: null }
  if (path === '/projects' || path === '/tasks' || path === '/sandboxes') return { items: [], next: null }
  return undefined
}

function Host() {
  const [now, setNow] = useState(search)
  return (
    <>
      <BoardPage search={now} onSearch={(more) => setNow((search = { ...search, ...more }))} />
      <Toasts />
    </>
  )
}

function show(role?: Role) {
  served = serve(answer)
  showPage(Host, role)
}

const column = (name: string) => screen.findByRole('region', { name })
const titles = (region: HTMLElement) => within(region).queryAllByTitle('Its tasks').map((one) => one.textContent)

beforeEach(() => {
  tickets = [ticket(1), ticket(2, { status: 'building', priority: 'HIGH' })]
  search = { view: 'tickets' }
  isRefused = false
})

describe('the board of tickets', () => {
  test('has a column for each state', async () => {
    show()
    expect(titles(await column('Backlog'))).toEqual(['Ticket 1'])
    expect(titles(await column('Building'))).toEqual(['Ticket 2'])
    expect(screen.queryByRole('region', { name: 'Cancelled' })).toBeNull()
    await userEvent.click(screen.getByLabelText('Cancelled'))
    expect(await column('Cancelled')).toBeTruthy()
  })

  test('moves one by its menu, and back by Undo', async () => {
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'Actions for Ticket 1' }))
    await userEvent.click(screen.getByRole('menuitem', { name: 'Move to testing' }))
    await waitFor(async () => expect(titles(await column('Testing'))).toEqual(['Ticket 1']))
    expect(screen.getByText('#1 “Ticket 1” is testing now.')).toBeTruthy()
    await userEvent.click(screen.getByRole('button', { name: 'Undo' }))
    await waitFor(async () => expect(titles(await column('Backlog'))).toEqual(['Ticket 1']))
    expect(served.changes.map(({ path, body }) => [path, body])).toEqual([
      ['/tickets/tkt-1', { status: 'testing' }],
      ['/tickets/tkt-1', { status: 'backlog' }],
    ])
  })

  test('says why one was not moved', async () => {
    isRefused = true
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'Actions for Ticket 1' }))
    await userEvent.click(screen.getByRole('menuitem', { name: 'Priority high' }))
    expect(await screen.findByText(/it is not to be moved/)).toBeTruthy()
    expect(screen.queryByRole('button', { name: 'Undo' })).toBeNull()
  })

  test('shows the tasks of one', async () => {
    show()
    await userEvent.click(await screen.findByText('Ticket 2'))
    expect(search).toMatchObject({ view: undefined, ticket: 'tkt-2' })
  })

  test('hears of changes', async () => {
    show()
    await column('Backlog')
    await waitFor(() => expect(served.isFollowed()).toBe(true))
    tickets = [ticket(1, { status: 'done' })]
    served.tell(liveEvent(1, { event_type: 'TICKET_UPDATED', entity_type: 'ticket', entity_id: 'tkt-1', payload: {}, seq: null }))
    await waitFor(async () => expect(titles(await column('Done'))).toEqual(['Ticket 1']))
  })

  test('offers no move to somebody who may only look', async () => {
    show('viewer')
    await column('Backlog')
    expect(screen.queryByRole('button', { name: /^Actions for/ })).toBeNull()
  })

  test('says that there is none', async () => {
    tickets = []
    show()
    expect(await screen.findByText('No ticket yet.')).toBeTruthy()
  })
})
