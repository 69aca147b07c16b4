// What the page of the audit trail asks the server for.

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, ask } from '../../api/client'
import type { AuditEntry } from '../../api/types'
import type { AuditSearch } from './search'

export function auditList(search: AuditSearch) {
  return infiniteQueryOptions({
    queryKey: ['audit', search],
    queryFn: ({ pageParam, signal }): Promise<{ items: AuditEntry[]; next?: string | null }> => {
      const query = { ...search, ...(pageParam && { cursor: pageParam }) }
      return ask(api.GET('/api/v1/audit', { params: { query }, signal }))
    },
    initialPageParam: '',
    getNextPageParam: (page) => page.next ?? undefined,
  })
}

/** Follows the whole chain, so it is asked for once and when somebody wants it. */
export function auditVerdict() {
  return queryOptions({
    queryKey: ['audit-verdict'],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/audit/verify', { signal })),
    staleTime: Number.POSITIVE_INFINITY,
  })
}
