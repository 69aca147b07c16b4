// Shows a page alone: with a router that knows no other, a server that answers by path, and somebody signed in.

import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from '@tanstack/react-router'
import { render } from '@testing-library/react'
import type { ReactNode } from 'react'
import { vi } from 'vitest'
import { session } from '../api/session'
import type { LiveEvent, Role } from '../api/types'
import { frame } from './fakes'

export type Asked = { method: string; path: string; query: Record<string, string>; body: unknown }

/** A body, a `Response`, or nothing for what is not there. */
export type Answer = (asked: Asked) => unknown

export type Served = {
  /** All that was asked for but the stream, in order. */
  asked: Asked[]
  /** Of that, what was not by GET. */
  changes: Asked[]
  /** Whether the page listens. */
  isFollowed: () => boolean
  /** Puts an event into the stream that is open. */
  tell: (event: LiveEvent) => void
}

export function serve(answer: Answer): Served {
  let stream: ReadableStreamDefaultController<Uint8Array> | undefined
  const served: Served = {
    asked: [],
    changes: [],
    isFollowed: () => stream !== undefined,
    tell: (event) => stream?.enqueue(new TextEncoder().encode(frame(event))),
  }
  vi.stubGlobal('fetch', async (input: Request | string) => {
    const url = new URL(typeof input === 'string' ? input : input.url, 'http://localhost')
    const path = url.pathname.replace('/api/v1', '')
    if (path === '/stream') return new Response(new ReadableStream<Uint8Array>({ start: (given) => void (stream = given) }))
    const text = input instanceof Request ? await input.text() : ''
    const call = {
      method: input instanceof Request ? input.method : 'GET',
      path,
      query: Object.fromEntries(url.searchParams),
      body: text ? (JSON.parse(text) as unknown) : undefined,
    }
    served.asked.push(call)
    if (call.method !== 'GET') served.changes.push(call)
    const answered = answer(call)
    if (answered instanceof Response) return answered
    return answered === undefined ? refused(404, 'not_found', path) : Response.json(answered)
  })
  return served
}

export function refused(status: number, code: string, detail: string): Response {
  return Response.json({ status, title: '', code, detail }, { status })
}

export function showPage(Page: () => ReactNode, role: Role = 'operator') {
  session.begin({ name: 'ada', role })
  const history = createMemoryHistory()
  const router = createRouter({ routeTree: createRootRoute({ component: Page, notFoundComponent: Page }), history })
  render(
    <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
      {/* oxlint-disable-next-line typescript/no-explicit-any -- a router of its own, with none of the page's routes */}
      <RouterProvider router={router as any} />
    </QueryClientProvider>,
  )
  return history
}
