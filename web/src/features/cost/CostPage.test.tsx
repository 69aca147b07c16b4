import { screen, waitFor } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { useState } from 'react'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { session } from '../../api/session'
import { serve, showPage, type Asked } from '../../test/page'
import { CostPage } from './CostPage'
import { asCostSearch, sinceOf, type CostSearch } from './search'

let search: CostSearch
let asked: Asked[]
let calls: object[]
let reported: object | undefined

const sums = { calls: 3, input_tokens: 1200, output_tokens: 90, cache_read_tokens: 0, cache_write_tokens: 0, cost_usd: 1.5 }

function Host() {
  const [now, setNow] = useState(search)
  const onSearch = (change: CostSearch) => {
    search = asCostSearch({ ...search, ...change })
    setNow(search)
  }
  return <CostPage search={now} onSearch={onSearch} />
}

beforeEach(() => {
  search = {}
  reported = undefined
  calls = [{ id: 'call-1', sandbox_id: 'sbx-1', model: 'm-1', state: 'broken', started_at: '2026-11-16T09:00:00Z', estimated: true, ...sums }]
  asked = serve(({ path, query }) => {
    switch (path) {
      case '/costs':
        return { items: calls, totals: { ...sums, reported_cost: reported } }
      case '/costs/groups':
        return { items: [{ key: query.by === 'project' ? 'prj-1' : 'm-1', ...sums, reported_cost: reported }, { key: null, ...sums }], is_cut: query.by === 'model' }
      case '/projects':
        return { items: [{ id: 'prj-1', name: 'Shop' }] }
      default:
        return undefined
    }
  }).asked
})

afterEach(() => session.end())

describe('costs', () => {
  test('are shown as the server adds them up, by project at first', async () => {
    showPage(Host)
    expect(await screen.findByRole('link', { name: 'Shop' })).toBeTruthy()
    expect(screen.getByText('of no project')).toBeTruthy()
    expect(screen.getByText('1.2k', { selector: 'dd' })).toBeTruthy()
    expect(screen.getByText('broken')).toBeTruthy()
  })

  test('that only workers report are shown and marked, also where no model was called', async () => {
    calls = []
    reported = { cost_usd: 1.75, counted_usd: 0.5, ignored: 0 }
    showPage(Host)
    expect(await screen.findByRole('link', { name: 'Shop' })).toBeTruthy()
    // Of all, and of the project.
    expect(screen.getAllByText('$1.75 as reported')).toHaveLength(2)
    expect(screen.getByText(/budgets count \$0\.50 of it/)).toBeTruthy()
  })

  test('are asked for by another group and time, which are in the address', async () => {
    showPage(Host)
    await userEvent.click(await screen.findByRole('button', { name: 'model' }))
    await userEvent.click(screen.getByRole('button', { name: 'all time' }))
    await userEvent.selectOptions(screen.getByLabelText('Project'), 'Shop')
    expect(search).toEqual({ group: 'model', range: 'all', project: 'prj-1' })
    expect(await screen.findByText('Only the first 2 are shown.')).toBeTruthy()
    await waitFor(() => expect(asked.filter(({ path }) => path === '/costs/groups').at(-1)?.query).toEqual({ by: 'model', project_id: 'prj-1' }))
  })

  test('say that there were none', async () => {
    calls = []
    showPage(Host)
    expect(await screen.findByText('No model was called in this time.')).toBeTruthy()
  })

  test('begin a whole minute ago, or with the first call', () => {
    const now = new Date('2026-11-16T09:00:42.5Z')
    expect(sinceOf('24h', now)).toBe('2026-11-15T09:00:00.000Z')
    expect(sinceOf('all', now)).toBeUndefined()
    expect(asCostSearch({ range: '1y', group: 'colour', project: '' })).toEqual({})
  })
})
