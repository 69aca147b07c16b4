// What the settings ask the server for.

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, ask } from '../../api/client'
import type { Role, Token } from '../../api/types'

export function whoami() {
  return queryOptions({
    queryKey: ['whoami'],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/whoami', { signal })),
  })
}

export function tokenList() {
  return infiniteQueryOptions({
    queryKey: ['tokens'],
    queryFn: ({ pageParam, signal }): Promise<{ items: Token[]; next?: string | null }> => {
      const query = pageParam ? { cursor: pageParam } : {}
      return ask(api.GET('/api/v1/tokens', { params: { query }, signal }))
    },
    initialPageParam: '',
    getNextPageParam: (page) => page.next ?? undefined,
  })
}

export function tokenCreate(name: string, role: Role, expiresAt: string | undefined) {
  return ask(api.POST('/api/v1/tokens', { body: { name, role, ...(expiresAt && { expires_at: expiresAt }) } }))
}

export function tokenRevoke(id: string) {
  return ask(api.DELETE('/api/v1/tokens/{id}', { params: { path: { id } } }))
}
