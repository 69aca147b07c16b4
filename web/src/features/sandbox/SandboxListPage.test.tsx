import { screen, waitFor, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { useState } from 'react'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { session } from '../../api/session'
import { serve, showPage, type Asked } from '../../test/page'
import { asListSearch, type ListSearch } from './list'
import { SandboxListPage } from './SandboxListPage'

let search: ListSearch
let asked: Asked[]

const sandbox = (n: number, status: string, change = {}) => ({
  id: `sbx-${n}`,
  task_id: `task-${n}`,
  status,
  provider: 'local',
  created_at: `2026-11-16T09:0${n}:00Z`,
  last_heartbeat_at: new Date().toISOString(),
  labels: {},
  ...change,
})

function Host() {
  const [now, setNow] = useState(search)
  const onSearch = (change: ListSearch) => {
    search = asListSearch({ ...search, ...change })
    setNow(search)
  }
  return <SandboxListPage search={now} onSearch={onSearch} />
}

beforeEach(() => {
  search = {}
  asked = serve(({ path }) => {
    if (path === '/sandboxes') return { items: [sandbox(2, 'running'), sandbox(1, 'failed', { ended_at: '2026-11-16T09:05:00Z', end_reason: 'agent_failed', provider: 'external' })] }
    if (path === '/tasks') return { items: [{ id: 'task-1', title: 'Fix the \u202eparser' }] }
    return path.endsWith('/terminate') ? sandbox(2, 'terminated') : undefined
  }).asked
})

afterEach(() => session.end())

const names = () => screen.getAllByRole('row').slice(1).map((row) => within(row).getByRole('link').textContent)

describe('the page of all sandboxes', () => {
  test('narrows by chips with counts, provider and words, all of it in the address', async () => {
    showPage(Host)
    expect(await screen.findByText('Fix the ⟨U+202E⟩parser')).toBeTruthy()
    expect(screen.getAllByRole('button', { pressed: true })[0]?.textContent).toBe('all 2')
    await userEvent.click(screen.getByRole('button', { name: /^live/ }))
    expect([search, names()]).toEqual([{ state: 'live' }, ['sbx-2']])
    await userEvent.click(screen.getByRole('button', { name: /^all/ }))
    await userEvent.selectOptions(screen.getByLabelText('Provider'), 'external')
    expect(names()).toEqual(['Fix the ⟨U+202E⟩parsersbx-1'])
    screen.getByLabelText('Provider').blur()
    await userEvent.keyboard('/')
    await userEvent.keyboard('nothing')
    expect(search).toEqual({ provider: 'external', q: 'nothing' })
    await userEvent.click(screen.getByRole('button', { name: 'Show all sandboxes' }))
    expect(search).toEqual({})
  })

  test('sorts by a heading, and the other way round', async () => {
    showPage(Host)
    await userEvent.click(await screen.findByRole('button', { name: 'Created' }))
    expect([search.sort, names()[0]]).toEqual(['-created', 'Fix the ⟨U+202E⟩parsersbx-1'])
    expect(screen.getByRole('columnheader', { name: 'Created' }).ariaSort).toBe('ascending')
    await userEvent.click(screen.getByRole('button', { name: 'Created' }))
    expect([search.sort, names()[0]]).toEqual([undefined, 'sbx-2'])
  })

  test('stops one from its row, after it has said what is kept', async () => {
    showPage(Host)
    await userEvent.click(await screen.findByRole('button', { name: 'Actions for sbx-2' }))
    await userEvent.click(screen.getByRole('menuitem', { name: 'Stop' }))
    const dialog = screen.getByRole('dialog', { name: 'Stop this sandbox?' })
    expect(dialog.textContent).toContain('Its work is kept first')
    await userEvent.click(within(dialog).getByRole('button', { name: 'Stop' }))
    await waitFor(() => expect(asked.some(({ path }) => path === '/sandboxes/sbx-2/terminate')).toBe(true))
  })

  test('offers to steer neither what is over nor to one who may only look', async () => {
    showPage(Host)
    await userEvent.click(await screen.findByRole('button', { name: 'Actions for sbx-1' }))
    expect(screen.queryByRole('menuitem', { name: 'Interrupt' })).toBeNull()
  })
})
