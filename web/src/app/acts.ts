// What sandboxes are doing, one line each: for pages that show many of them.

import { queryOptions, useQueries } from '@tanstack/react-query'
import { useState } from 'react'
import { api, ask } from '../api/client'
import type { LiveEvent } from '../api/types'
import { doing, type Doing } from '../live/doing'

/** A page that stays open for days hears of many. */
const HEARD_MAX = 200
const TOLD = 20

/** What the stream told last of each, or what was told before it was open; and whether an event says such a thing. */
export function useActs(sandboxes: readonly string[]): [ReadonlyMap<string, Doing>, (event: LiveEvent) => boolean] {
  const [heard, setHeard] = useState<ReadonlyMap<string, Doing>>(new Map())
  const before = useQueries({ queries: sandboxes.map((id) => lastEvents(id)) })
  const acts = new Map<string, Doing>()
  sandboxes.forEach((id, n) => {
    const told = before[n]?.data?.map((event) => doing(event.event_type, event.event_data, event.created_at))
    const act = heard.get(id) ?? told?.find((one) => one !== undefined)
    if (act) acts.set(id, act)
  })
  const hear = (event: LiveEvent) => {
    const act = actOf(event)
    if (act) setHeard((old) => new Map([...old].slice(-HEARD_MAX)).set(event.entity_id, act))
    return act !== undefined
  }
  return [acts, hear]
}

/** The newest events of a sandbox but its heartbeats, newest first: enough to tell what it does. */
function lastEvents(id: string) {
  return queryOptions({
    queryKey: ['doing', id],
    queryFn: async ({ signal }) => {
      const params = { path: { id }, query: { limit: TOLD } }
      return (await ask(api.GET('/api/v1/sandboxes/{id}/trajectory', { params, signal }))).events
    },
    staleTime: Infinity,
  })
}

function actOf(event: LiveEvent): Doing | undefined {
  if (event.entity_type !== 'sandbox' || typeof event.seq !== 'number') return undefined
  return doing(event.event_type.replace(/^SANDBOX_/, ''), event.payload, event.timestamp)
}
