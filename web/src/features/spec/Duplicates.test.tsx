import { screen, waitFor, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { expect, test } from 'vitest'
import type { Role, SpecDetail } from '../../api/types'
import { refused, serve, showPage, type Answer } from '../../test/page'
import { Duplicates } from './Duplicates'
import { openDuplicates } from './duplicates'
import { duplicate, specDetail } from './fixtures'

function show(change: Partial<SpecDetail>, answer: Answer = () => specDetail(), role?: Role) {
  const served = serve(answer)
  showPage(() => <Duplicates spec={specDetail({ status: 'executing', ...change })} />, role)
  return served.changes
}

const TWO = [duplicate('TSK-001', 'task-a'), duplicate('TSK-001', 'task-b', { existing_status: 'failed', similarity: 0.8 })]

test('an existing task takes the place of a new one once that is confirmed', async () => {
  const changes = show({ duplicates: TWO })
  expect(await screen.findByText('1 task to decide about')).toBeTruthy()
  expect(screen.getByText('90 % alike')).toBeTruthy()
  await userEvent.click(screen.getByRole('button', { name: 'Use Old task-a for TSK-001' }))
  const asks = within(await screen.findByRole('dialog'))
  expect(asks.getByText(/“Own TSK-001” is cancelled, and what waits for it waits for “Old task-a”/)).toBeTruthy()
  expect(changes).toEqual([])
  await userEvent.click(asks.getByRole('button', { name: 'Use the existing task' }))
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull())
  expect(changes.map(({ path, body }) => [path, body])).toEqual([
    ['/specs/spec-1/duplicates', { symbol: 'TSK-001', decision: 'link', existing_task_id: 'task-a' }],
  ])
})

test('nothing is offered to build on that has failed', async () => {
  show({ duplicates: TWO })
  await screen.findByText('Old task-b')
  expect(screen.queryByRole('button', { name: /Old task-b/ })).toBeNull()
})

test('a task is kept as other work, and a refusal is shown', async () => {
  const changes = show({ duplicates: TWO }, () => refused(409, 'duplicate_decided', 'TSK-001 is linked already'))
  await userEvent.click(await screen.findByRole('button', { name: 'Keep TSK-001' }))
  expect((await screen.findByRole('alert')).textContent).toContain('TSK-001 is linked already')
  expect(changes[0]?.body).toEqual({ symbol: 'TSK-001', decision: 'keep' })
})

test('what is decided says by whom, and is not asked again', async () => {
  const by = { decided_by: 'ada', decided_at: '2026-11-16T09:00:00Z' }
  const decided = [
    duplicate('TSK-001', 'task-a', { decision: 'keep', ...by }),
    duplicate('TSK-001', 'task-b', { decision: 'link', ...by }),
    duplicate('TSK-002', 'task-c', { decision: 'keep', ...by }),
  ]
  expect(openDuplicates({ duplicates: [...decided, duplicate('TSK-003', 'task-d')] }).map(({ symbol }) => symbol)).toEqual(['TSK-003'])
  show({ duplicates: decided })
  expect(await screen.findByText(/“Old task-b” stands in its place, as ada decided/)).toBeTruthy()
  expect(screen.getByText(/Kept as other work, as ada decided/)).toBeTruthy()
  expect(screen.getByText('all decided')).toBeTruthy()
  expect(screen.queryByRole('button')).toBeNull()
})

test('viewers see it and decide nothing', async () => {
  show({ duplicates: TWO }, undefined, 'viewer')
  expect(await screen.findByText(/does not begin until somebody decides/)).toBeTruthy()
  expect(screen.queryByRole('button')).toBeNull()
})

test('where no phase waits for anybody, it is said that nothing waits', async () => {
  show({ duplicates: TWO, gates: [] })
  expect(await screen.findByText(/it begins anyway/)).toBeTruthy()
})
