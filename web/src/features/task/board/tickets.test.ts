import { expect, test } from 'vitest'
import type { Ticket } from '../../../api/types'
import { ticketColumns, ticketMoves, ticketMoveWords } from './tickets'

function ticket(number: number, more: Partial<Ticket> = {}): Ticket {
  const times = { created_at: '2026-11-16T09:00:00Z', updated_at: `2026-11-16T09:0${number}:00Z` }
  return { id: `tkt-${number}`, project_id: 'prj-1', number, title: `Ticket ${number}`, description: '', ticket_type: 'bug', priority: 'MEDIUM', status: 'backlog', ...times, ...more }
}

const numbers = (tickets: Ticket[], search = {}) => ticketColumns(tickets, search).map((column) => [column.status, column.tickets.map((one) => one.number)])

test('tickets stand by their state: open ones by urgency and age, others newest first', () => {
  const all = [ticket(1), ticket(2, { priority: 'HIGH' }), ticket(3), ticket(4, { status: 'done' }), ticket(5, { status: 'done' }), ticket(6, { status: 'cancelled' })]
  expect(numbers(all)).toEqual([
    ['backlog', [2, 1, 3]],
    ['analyzing', []],
    ['building', []],
    ['building-done', []],
    ['testing', []],
    ['done', [5, 4]],
  ])
  expect(numbers(all, { cancelled: true }).at(-1)).toEqual(['cancelled', [6]])
})

test('they are found by their words, number and priority', () => {
  const all = [ticket(1, { title: 'Fix the parser' }), ticket(2, { priority: 'HIGH' })]
  expect(numbers(all, { q: 'parser bug' })[0]).toEqual(['backlog', [1]])
  expect(numbers(all, { q: '#2' })[0]).toEqual(['backlog', [2]])
  expect(numbers(all, { priority: 'MEDIUM' })[0]).toEqual(['backlog', [1]])
})

test('one can be put everywhere but where it is', () => {
  const words = ticketMoves(ticket(1)).map(ticketMoveWords)
  expect(words).toContain('Move to built')
  expect(words).not.toContain('Move to backlog')
  expect(words).not.toContain('Priority medium')
})
