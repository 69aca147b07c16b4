// What the page of attached agents asks the server for.

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, ask } from '../../api/client'
import type { Agent, Sandbox } from '../../api/types'

/** A heartbeat of an agent is no event of the stream, so this is asked for again. */
export const BEATS_MS = 10_000
const HELD = 500

export function agentList() {
  return infiniteQueryOptions({
    queryKey: ['agents'],
    queryFn: ({ pageParam, signal }): Promise<{ items: Agent[]; next?: string | null }> => {
      const query = pageParam ? { cursor: pageParam } : {}
      return ask(api.GET('/api/v1/agents', { params: { query }, signal }))
    },
    initialPageParam: '',
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: BEATS_MS,
  })
}

/** Live sandboxes: those of attached agents say what each of them does. */
export function heldSandboxes() {
  return queryOptions({
    queryKey: ['sandboxes', 'agents'],
    queryFn: ({ signal }): Promise<{ items: Sandbox[]; next?: string | null }> =>
      ask(api.GET('/api/v1/sandboxes', { params: { query: { live: true, limit: HELD } }, signal })),
  })
}

export function taskName(id: string) {
  return queryOptions({
    queryKey: ['task', id],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/tasks/{id}', { params: { path: { id } }, signal })),
  })
}
