import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { render, screen, waitFor } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { session } from '../../api/session'
import type { Message, Role } from '../../api/types'
import { liveEvent } from '../../test/fakes'
import { MessageBox } from './MessageBox'
import { advance, applyLive } from './queries'

let stored: Message[]
let posted: unknown[]
let refusal: Response | undefined
let queries: QueryClient

function message(change: Partial<Message>): Message {
  return {
    id: 'msg-1',
    sandbox_id: 'sbx-1',
    content: 'use the old column',
    message_type: 'user_message',
    sender: 'ada',
    state: 'queued',
    timestamp: '2026-11-16T09:00:00Z',
    deliveries: 0,
    delivered_at: null,
    injected_at: null,
    acknowledged_at: null,
    expired_at: null,
    ...change,
  }
}

async function answer(request: Request): Promise<Response> {
  if (request.method === 'GET') return Response.json(stored)
  posted.push([request.headers.get('x-omoi-csrf'), await request.json()])
  if (refusal) return refusal
  stored = [message({})]
  return Response.json({ status: 'queued', message_id: 'msg-1', sandbox_id: 'sbx-1' })
}

function show(role: Role = 'operator', isOver = false) {
  session.begin({ name: 'ada', role })
  queries = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  render(
    <QueryClientProvider client={queries}>
      <MessageBox sandboxId="sbx-1" isOver={isOver} />
    </QueryClientProvider>,
  )
}

beforeEach(() => {
  stored = []
  posted = []
  refusal = undefined
  vi.stubGlobal('fetch', answer)
})

afterEach(() => session.end())

describe('the message box', () => {
  test('sends a message of the chosen type and shows what becomes of it', async () => {
    show()
    const box = screen.getByLabelText('To the agent')
    await userEvent.type(box, 'use the old column')
    await userEvent.selectOptions(screen.getByLabelText('Type'), 'Interrupt')
    await userEvent.click(screen.getByRole('button', { name: 'Send' }))
    expect(posted).toEqual([['1', { content: 'use the old column', message_type: 'interrupt' }]])
    expect(await screen.findByText('queued')).toBeTruthy()
    expect((box as HTMLTextAreaElement).value).toBe('')

    stored = [message({ state: 'injected', injected_at: '2026-11-16T09:00:05Z' })]
    const payload = { message_id: 'msg-1', state: 'injected' }
    applyLive(queries, 'sbx-1', liveEvent(1, { event_type: 'SANDBOX_MESSAGE_STATE', payload, seq: null }))
    expect(await screen.findByText('injected')).toBeTruthy()
  })

  test('sends with the keyboard', async () => {
    show()
    await userEvent.type(screen.getByLabelText('To the agent'), 'stop{Control>}{Enter}{/Control}')
    await waitFor(() => expect(posted).toHaveLength(1))
  })

  test('keeps what was typed when the server refuses it', async () => {
    refusal = Response.json({ status: 409, title: 'Conflict', code: 'sandbox_ended', detail: 'has ended' }, { status: 409 })
    show()
    const box = screen.getByLabelText('To the agent')
    await userEvent.type(box, 'hello')
    await userEvent.click(screen.getByRole('button', { name: 'Send' }))
    expect((await screen.findByRole('alert')).textContent).toContain('has ended')
    expect((box as HTMLTextAreaElement).value).toBe('hello')
  })

  test('is not offered where nobody may speak or hear', () => {
    show('viewer')
    expect(screen.getByText(/may look, but not speak/)).toBeTruthy()
    expect(screen.queryByLabelText('To the agent')).toBeNull()
  })

  test('shows no message going back to an earlier state', () => {
    const shown = [message({ state: 'acknowledged' }), message({ id: 'msg-2' })]
    expect(advance(shown, 'msg-1', 'delivered')[0]?.state).toBe('acknowledged')
    expect(advance(shown, 'msg-2', 'delivered')[1]?.state).toBe('delivered')
  })
})
