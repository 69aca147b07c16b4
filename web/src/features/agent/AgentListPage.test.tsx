import { screen, within } from '@testing-library/react'
import { afterEach, expect, test } from 'vitest'
import { session } from '../../api/session'
import { refused, serve, showPage } from '../../test/page'
import { AgentListPage } from './AgentListPage'

afterEach(() => session.end())

const agent = (id: string, status: string) => ({
  id,
  name: `robot ${id}`,
  agent_type: 'worker',
  capabilities: ['rust', 'git'],
  status,
  heartbeat_sequence: 41,
  last_heartbeat_at: new Date().toISOString(),
  created_at: '2026-11-16T09:00:00Z',
})

test('agents say how they stand and what they work on', async () => {
  serve(({ path, query }) => {
    if (path === '/agents') return { items: [agent('agt-1', 'running'), agent('agt-2', 'degraded')] }
    if (path === '/sandboxes') return { items: query.live === 'true' ? [{ id: 'sbx-1', agent_id: 'agt-1', task_id: 'task-1', status: 'running' }] : [] }
    return path === '/tasks/task-1' ? { id: 'task-1', title: 'Fix it' } : undefined
  })
  showPage(AgentListPage)
  expect(await screen.findByRole('link', { name: 'Fix it' })).toBeTruthy()
  const [, first, second] = screen.getAllByRole('row')
  expect(within(first as HTMLElement).getByText('41')).toBeTruthy()
  expect(second?.textContent).toContain('degradedheartbeats are missing')
  expect(second?.textContent).toContain('nothing')
})

test('no agent says what would be here, and a refusal what went wrong', async () => {
  serve(({ path }) => (path === '/agents' || path === '/sandboxes' ? { items: [] } : undefined))
  showPage(AgentListPage)
  expect(await screen.findByText('No agent is attached.')).toBeTruthy()
  serve(() => refused(500, 'broken', 'the store is away'))
  showPage(AgentListPage)
  expect((await screen.findByRole('alert')).textContent).toContain('the store is away')
})
