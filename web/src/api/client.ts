// The one way to the server: adds what marks a call of these pages, turns refusals into `Problem`s, ends the session when it is over.

import createClient from 'openapi-fetch'
import { asProblem, Problem, problemOf } from './problem'
import type { paths } from './schema'
import { session } from './session'

export const api = createClient<paths>({
  baseUrl: location.origin,
  credentials: 'same-origin',
  // The cookie alone would let any page of the same site change things; no other page can send this header.
  headers: { 'X-Omoi-Csrf': '1' },
  // Looked up at each call, so that a test can put its own in place.
  fetch: (request) => globalThis.fetch(request),
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
 * Opens the live stream. `EventSource` does not say why it was refused, so this is a plain request whose body does not end.
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
  const headers = { accept: 'text/event-stream' }
  const credentials = 'same-origin'
  const response = await fetch(`/api/v1/stream?${query}`, { headers, credentials, signal, cache: 'no-store' })
  if (!response.ok) throw refusal(response.status, await response.json().catch(() => undefined))
  if (!response.body) throw new Problem(0, 'no_body', 'The stream came without a body.')
  return response.body
}

function refusal(status: number, body: unknown): Problem {
  if (status === 401) session.end()
  return problemOf(status, body)
}
