import { QueryClient } from '@tanstack/react-query'
import { describe, expect, test, vi } from 'vitest'
import type { Task } from '../../api/types'
import { bringUpToDate, place, placed } from './place'
import { taskPages, type TaskFilter } from './queries'

const task = (id: string, more: Partial<Task> = {}) =>
  ({ id, status: 'pending', project_id: 'prj-1', updated_at: '2026-11-16T09:00:00Z', ...more }) as Task
const pages = (...items: Task[][]) => ({ pages: items.map((page) => ({ items: page, next: null })), pageParams: items.map(() => '') })
const list = (filter: TaskFilter) => taskPages(filter, 50).queryKey
const ids = (data: { pages: { items: Task[] }[] } | undefined) => data?.pages.map((page) => page.items.map(({ id }) => id))

describe('a changed task', () => {
  test('is replaced where it stands', () => {
    const data = placed(pages([task('a')], [task('b'), task('c')]), task('b', { title: 'new' }), true)
    expect(ids(data)).toEqual([['a'], ['b', 'c']])
    expect(data.pages[1]?.items[0]?.title).toBe('new')
  })

  test('leaves the lists that it does not belong to any more, and comes first in its new one', () => {
    const queries = new QueryClient()
    queries.setQueryData(list({ status: 'pending' }), pages([task('a'), task('b')]))
    queries.setQueryData(list({ status: 'running' }), pages([task('r')]))
    queries.setQueryData(list({ status: 'running', project: 'prj-2' }), pages([]))
    queries.setQueryData(list({}), pages([task('b'), task('a')]))
    place(queries, task('a', { status: 'running' }))
    expect(ids(queries.getQueryData(list({ status: 'pending' })))).toEqual([['b']])
    expect(ids(queries.getQueryData(list({ status: 'running' })))).toEqual([['a', 'r']])
    expect(ids(queries.getQueryData(list({ status: 'running', project: 'prj-2' })))).toEqual([[]])
    expect(ids(queries.getQueryData(list({})))).toEqual([['b', 'a']])
  })

  test('does not give way to an answer that is older', () => {
    const data = pages([task('a', { updated_at: '2026-11-16T09:00:09Z' })])
    expect(placed(data, task('a', { status: 'failed' }), false)).toBe(data)
  })
})

test('a few tasks are asked for one by one, many by their lists', async () => {
  const queries = new QueryClient()
  const asked: string[] = []
  vi.stubGlobal('fetch', async (request: Request) => {
    const path = new URL(request.url).pathname
    asked.push(path)
    return path.endsWith('gone') ? Response.json({ code: 'not_found' }, { status: 404 }) : Response.json(task(path.slice(-1), { status: 'failed' }))
  })
  queries.setQueryDefaults(['task'], { retry: false })
  const { queryKey } = taskPages({ status: 'failed' }, 50)
  queries.setQueryData(queryKey, pages([]))
  await bringUpToDate(queries, ['a', 'gone'])
  expect(asked).toEqual(['/api/v1/tasks/a', '/api/v1/tasks/gone'])
  expect(ids(queries.getQueryData(queryKey))).toEqual([['a']])
  await bringUpToDate(queries, Array.from({ length: 21 }, (_, n) => `t${n}`))
  expect(asked).toHaveLength(2)
  expect(queries.getQueryState(queryKey)?.isInvalidated).toBe(true)
})
