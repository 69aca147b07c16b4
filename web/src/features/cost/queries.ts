// What the page of costs asks the server for. Sums are the server's; nothing is added up here.

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, ask } from '../../api/client'
import type { CostTotals, ModelCall } from '../../api/types'
import type { Group } from './search'

export type Asked = { since?: string; project_id?: string }

export function callList(asked: Asked) {
  return infiniteQueryOptions({
    queryKey: ['costs', 'calls', asked],
    queryFn: ({ pageParam, signal }): Promise<{ items: ModelCall[]; next?: string | null; totals: CostTotals }> => {
      const query = { ...asked, limit: 50, ...(pageParam && { cursor: pageParam }) }
      return ask(api.GET('/api/v1/costs', { params: { query }, signal }))
    },
    initialPageParam: '',
    getNextPageParam: (page) => page.next ?? undefined,
  })
}

export function costGroups(asked: Asked, by: Group) {
  return queryOptions({
    queryKey: ['costs', 'groups', by, asked],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/costs/groups', { params: { query: { ...asked, by } }, signal })),
  })
}

const PROJECTS = 500

export function projectNames() {
  return queryOptions({
    queryKey: ['projects', 'choice'],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/projects', { params: { query: { limit: PROJECTS } }, signal })),
  })
}

export function taskName(id: string) {
  return queryOptions({
    queryKey: ['task', id],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/tasks/{id}', { params: { path: { id } }, signal })),
  })
}
