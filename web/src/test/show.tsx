// Shows a page as the application does: with a router around it, and a server that answers what the test says.

import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from '@tanstack/react-router'
import { render } from '@testing-library/react'
import type { ReactNode } from 'react'
import { vi } from 'vitest'
import { session } from '../api/session'
import type { LiveEvent, Role } from '../api/types'
import { frame } from './fakes'

export type Asked = { method: string; path: string; query: URLSearchParams; body: unknown }
/** What is not answered is not there. */
export type Answer = (asked: Asked) => unknown

export type Served = {
  /** All that was asked but by GET, in order. */
  changes: Asked[]
  asked: Asked[]
  /** Puts an event into the stream that is open. */
  tell: (event: LiveEvent) => void
}

export class Refusal {
  readonly status: number
  readonly code: string
  constructor(status: number, code: string) {
    this.status = status
    this.code = code
  }
}

export function serve(answer: Answer): Served {
  let stream: ReadableStreamDefaultController<Uint8Array> | undefined
  const served: Served = {
    changes: [],
    asked: [],
    tell: (event) => stream?.enqueue(new TextEncoder().encode(frame(event))),
  }
  vi.stubGlobal('fetch', async (input: Request | string) => {
    const url = new URL(typeof input === 'string' ? input : input.url, 'http://localhost')
    const path = url.pathname.replace('/api/v1', '')
    if (path === '/stream') {
      served.asked.push({ method: 'GET', path, query: url.searchParams, body: undefined })
      return new Response(new ReadableStream<Uint8Array>({ start: (given) => void (stream = given) }))
    }
    const method = input instanceof Request ? input.method : 'GET'
    const isRead = method === 'GET'
    const words = input instanceof Request && !isRead ? await input.text() : ''
    const asked = { method, path, query: url.searchParams, body: words ? JSON.parse(words) : undefined }
    served.asked.push(asked)
    if (!isRead) served.changes.push(asked)
    const given = answer(asked) ?? new Refusal(404, 'not_found')
    if (!(given instanceof Refusal)) return Response.json(given)
    const { status, code } = given
    return Response.json({ status, code, title: code, detail: `${code}: ${path}` }, { status })
  })
  return served
}

export function showPage(component: () => ReactNode, role: Role = 'operator') {
  session.begin({ name: 'ada', role })
  const router = createRouter({ routeTree: createRootRoute({ component }), history: createMemoryHistory() })
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  return render(
    <QueryClientProvider client={queries}>
      {/* oxlint-disable-next-line typescript/no-explicit-any -- a router of its own, with none of the page's routes */}
      <RouterProvider router={router as any} />
    </QueryClientProvider>,
  )
}
