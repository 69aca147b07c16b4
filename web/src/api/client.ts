// The one way to the server: adds the token, turns refusals into `Problem`s, ends the session when it is over.

import createClient from 'openapi-fetch'
import { asProblem, Problem, problemOf } from './problem'
import type { paths } from './schema'
import { session } from './session'

export const api = createClient<paths>({
  baseUrl: location.origin,
  // Looked up at each call, so that a test can put its own in place.
  fetch: (request) => globalThis.fetch(request),
})

api.use({
  onRequest({ request }) {
    const token = session.get()?.token
    if (token && !request.headers.has('authorization')) request.headers.set('authorization', `Bearer ${token}`)
    return request
  },
})

/** What the call answers; throws a `Problem` when it is refused or not answered. */
export async function ask<T>(call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  let answer
  try {
    answer = await call
  } catch (error) {
    throw asProblem(error)
  }
  const { data, error, response } = answer
  if (response.ok && data !== undefined) return data
  throw refusal(response.status, error)
}

/** What of the live stream a page wants; an absent part wants everything. */
export type StreamFilter = { entityTypes?: string[]; entityIds?: string[]; eventTypes?: string[] }

/**
 * Opens the live stream. `EventSource` cannot send the token, so this is a plain request whose body does not end.
 * With `since` it begins right behind that position, without it with what happens from now on.
 */
export async function openStream(
  filter: StreamFilter,
  since: number | undefined,
  signal: AbortSignal,
): Promise<ReadableStream<Uint8Array>> {
  const query = new URLSearchParams()
  if (filter.entityTypes) query.set('entity_types', filter.entityTypes.join(','))
  if (filter.entityIds) query.set('entity_ids', filter.entityIds.join(','))
  if (filter.eventTypes) query.set('event_types', filter.eventTypes.join(','))
  if (since !== undefined) query.set('since', String(since))
  const headers = { accept: 'text/event-stream', authorization: `Bearer ${session.get()?.token ?? ''}` }
  const response = await fetch(`/api/v1/stream?${query}`, { headers, signal, cache: 'no-store' })
  if (!response.ok) throw refusal(response.status, await response.json().catch(() => undefined))
  if (!response.body) throw new Problem(0, 'no_body', 'The stream came without a body.')
  return response.body
}

function refusal(status: number, body: unknown): Problem {
  if (status === 401) session.end()
  return problemOf(status, body)
}
