import { describe, expect, test } from 'vitest'
import type { Sandbox } from '../../api/types'
import { asListSearch, countsOf, shownOf, type ListSearch } from './list'

const row = (id: string, title: string | undefined, change: Partial<Sandbox>) => ({
  title,
  sandbox: { id, status: 'completed', provider: 'local', created_at: `2026-11-16T09:0${id.slice(-1)}:00Z`, ...change } as Sandbox,
})

const ROWS = [
  row('sbx-1', 'Fix the parser', { status: 'running', cost_usd: 1, branch_name: 'fix/parser' }),
  row('sbx-2', 'Add replay', { status: 'failed', cost_usd: 3 }),
  row('sbx-3', undefined, { status: 'creating', provider: 'external', cost_usd: 2 }),
]

const ids = (search: ListSearch) => shownOf(ROWS, search).map(({ sandbox }) => sandbox.id)

describe('the list of sandboxes', () => {
  test.each<[string, ListSearch, string[]]>([
    ['newest first', {}, ['sbx-3', 'sbx-2', 'sbx-1']],
    ['oldest first', { sort: '-created' }, ['sbx-1', 'sbx-2', 'sbx-3']],
    ['dearest first', { sort: 'cost' }, ['sbx-2', 'sbx-3', 'sbx-1']],
    ['by the title of the task, those without one last', { sort: 'task' }, ['sbx-2', 'sbx-1', 'sbx-3']],
    ['live ones', { state: 'live' }, ['sbx-3', 'sbx-1']],
    ['one state', { state: 'failed' }, ['sbx-2']],
    ['one provider', { provider: 'external' }, ['sbx-3']],
    ['by words of the title, in any order', { q: 'PARSER fix' }, ['sbx-1']],
    ['by the branch', { q: 'fix/parser' }, ['sbx-1']],
    ['by the id', { q: 'sbx-2' }, ['sbx-2']],
  ])('shows them %s', (_case, search, expected) => {
    expect(ids(search)).toEqual(expected)
  })

  test('counts what each state would show under the same search', () => {
    expect(countsOf(ROWS, { state: 'failed' })).toMatchObject({ all: 3, live: 2, running: 1, creating: 1, failed: 1, lost: 0 })
    expect(countsOf(ROWS, { q: 'parser' })).toMatchObject({ all: 1, live: 1, failed: 0 })
  })

  test('keeps in its address what makes sense', () => {
    const search = { state: 'live', provider: 'local', q: 'x', sort: '-cost' }
    expect(asListSearch(search)).toEqual(search)
    expect(asListSearch({ state: 'evil', provider: '', q: ['x'], sort: 'colour' })).toEqual({})
    expect(asListSearch({ q: 42, state: 'all', sort: 'created' })).toEqual({ q: '42' })
  })
})
