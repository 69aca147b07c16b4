// Puts what the server says of one task into every list of tasks that is shown, so that none is asked for again.

import type { InfiniteData, QueryClient } from '@tanstack/react-query'
import type { Task } from '../../api/types'
import { taskOne, type TaskFilter, type TaskPage } from './queries'

/** With more changed at once, lists are the cheaper question. */
const EACH_MAX = 20

type Pages = InfiniteData<TaskPage>

/** Where it stands already, else first; and nowhere that it does not belong. */
export function placed(data: Pages, task: Task, belongs: boolean): Pages {
  const known = data.pages.flatMap(({ items }) => items).find(({ id }) => id === task.id)
  if (known ? known.updated_at > task.updated_at : !belongs) return data
  const replace = (items: Task[]) =>
    items.flatMap((item) => (item.id === task.id ? (belongs ? [task] : []) : [item]))
  const pages = data.pages.map((page, n) => ({
    ...page,
    items: !known && n === 0 ? [task, ...page.items] : replace(page.items),
  }))
  return { ...data, pages }
}

export function fits(task: Task, { status, project, ticket }: TaskFilter): boolean {
  return (
    (status === undefined || task.status === status) &&
    (project === undefined || task.project_id === project) &&
    (ticket === undefined || task.ticket_id === ticket)
  )
}

export function place(queries: QueryClient, task: Task) {
  for (const [key, data] of queries.getQueriesData<Pages>({ queryKey: ['tasks', 'pages'] })) {
    if (data) queries.setQueryData(key, placed(data, task, fits(task, key[2] as TaskFilter)))
  }
}

/** Asks again for tasks that have changed, and for what is shown beside them. */
export async function bringUpToDate(queries: QueryClient, ids: readonly string[]) {
  if (ids.length > EACH_MAX) {
    await Promise.all([
      queries.invalidateQueries({ queryKey: ['tasks'] }),
      queries.invalidateQueries({ queryKey: ['task'] }),
    ])
    return
  }
  await Promise.all(
    ids.map(async (id) => {
      const task = await queries.fetchQuery({ ...taskOne(id), staleTime: 0 }).catch(() => undefined)
      if (task) place(queries, task)
      await queries.invalidateQueries({ queryKey: ['task', id], predicate: ({ queryKey }) => queryKey.length > 2 })
    }),
  )
}
