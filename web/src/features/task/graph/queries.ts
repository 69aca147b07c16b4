// What the graph asks the server for.

import { queryOptions } from '@tanstack/react-query'
import { api, ask } from '../../../api/client'
import type { Task } from '../../../api/types'
import { conflictOf } from '../../../parts/conflict'

export function graphOf(project: string, ticket: string | undefined) {
  return queryOptions({
    queryKey: ['graph', project, { ticket }],
    queryFn: ({ signal }) => {
      const params = { path: { id: project }, query: ticket ? { ticket_id: ticket } : {} }
      return ask(api.GET('/api/v1/projects/{id}/graph', { params, signal }))
    },
  })
}

export function overlapsOf(project: string) {
  return queryOptions({
    queryKey: ['graph', project, 'overlaps'],
    queryFn: async ({ signal }) =>
      (await ask(api.GET('/api/v1/projects/{id}/overlaps', { params: { path: { id: project } }, signal }))).items,
  })
}

const LIVE = 500

/** Which sandbox works on which task. */
export function holdersOf(project: string) {
  return queryOptions({
    queryKey: ['graph', project, 'holders'],
    queryFn: async ({ signal }): Promise<ReadonlyMap<string, string>> => {
      const query = { project_id: project, live: true, limit: LIVE }
      const { items } = await ask(api.GET('/api/v1/sandboxes', { params: { query }, signal }))
      return new Map(items.flatMap(({ id, task_id }) => (task_id ? [[task_id, id] as const] : [])))
    },
  })
}

const FAILED = 500

/** The tasks that cannot begin since what they build on does not go together. */
export function conflictsOf(project: string) {
  return queryOptions({
    queryKey: ['graph', project, 'conflicts'],
    queryFn: async ({ signal }): Promise<ReadonlyMap<string, Task>> => {
      const query = { project_id: project, status: 'failed', limit: FAILED } as const
      const { items } = await ask(api.GET('/api/v1/tasks', { params: { query }, signal }))
      return new Map(items.filter(conflictOf).map((task) => [task.id, task]))
    },
  })
}
