// Shows a page alone: with a router that knows no other, a server that answers by path, and somebody signed in.

import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from '@tanstack/react-router'
import { render } from '@testing-library/react'
import type { ReactNode } from 'react'
import { vi } from 'vitest'
import { session } from '../api/session'
import type { Role } from '../api/types'

export type Asked = { method: string; path: string; query: Record<string, string>; body: unknown }

/** A body, a `Response`, or nothing for what is not there. */
export type Answer = (asked: Asked) => unknown

/** What was asked for but the stream, in order. */
export function serve(answer: Answer): Asked[] {
  const calls: Asked[] = []
  vi.stubGlobal('fetch', async (input: Request | string) => {
    const url = new URL(typeof input === 'string' ? input : input.url, 'http://localhost')
    const path = url.pathname.replace('/api/v1', '')
    if (path === '/stream') return new Response(new ReadableStream())
    const text = input instanceof Request ? await input.text() : ''
    const call = {
      method: input instanceof Request ? input.method : 'GET',
      path,
      query: Object.fromEntries(url.searchParams),
      body: text ? (JSON.parse(text) as unknown) : undefined,
    }
    calls.push(call)
    const answered = answer(call)
    if (answered instanceof Response) return answered
    return answered === undefined ? refused(404, 'not_found', path) : Response.json(answered)
  })
  return calls
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
