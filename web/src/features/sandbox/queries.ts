// What the sandbox pages ask the server for.

import { infiniteQueryOptions, queryOptions, type InfiniteData, type QueryClient } from '@tanstack/react-query'
import { api, ask } from '../../api/client'
import { Problem } from '../../api/problem'
import type { LiveEvent, Message, MessageState, MessageType, Sandbox, StoredEvent, Task } from '../../api/types'
import type { HistoryQuery } from '../../live/feed'

/** How often a worker says that it lives, unless it was told otherwise. */
export const BEAT_MS = 30_000

/** What the stream calls them. */
export const HEARTBEATS = ['SANDBOX_agent.heartbeat', 'SANDBOX_spec.heartbeat', 'SANDBOX_heartbeat']

export type SandboxPage = { items: Sandbox[]; next?: string | null }

const PAGE = 500

/** Newest first. Filters and order are the page's own, so that its counts and rows come from one answer. */
export function sandboxList() {
  return infiniteQueryOptions({
    queryKey: ['sandboxes', 'list'],
    queryFn: ({ pageParam, signal }): Promise<SandboxPage> => {
      const query = { limit: PAGE, ...(pageParam && { cursor: pageParam }) }
      return ask(api.GET('/api/v1/sandboxes', { params: { query }, signal }))
    },
    initialPageParam: '',
    getNextPageParam: (page) => page.next ?? undefined,
  })
}

/** What the newest tasks are called. */
export function taskTitles() {
  return queryOptions({
    queryKey: ['tasks', 'titles'],
    queryFn: async ({ signal }): Promise<Task[]> => (await ask(api.GET('/api/v1/tasks', { params: { query: { limit: PAGE } }, signal }))).items,
  })
}

/** A heartbeat says all there is to say; every other event means that the list has to be asked for again. */
export function beat(data: InfiniteData<SandboxPage> | undefined, event: LiveEvent) {
  return (
    data && {
      ...data,
      pages: data.pages.map((page) => ({
        ...page,
        items: page.items.map((sandbox) =>
          sandbox.id === event.entity_id ? { ...sandbox, last_heartbeat_at: event.timestamp } : sandbox,
        ),
      })),
    }
  )
}

export function sandboxOne(id: string) {
  return queryOptions({
    queryKey: ['sandbox', id],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/sandboxes/{id}', { params: { path: { id } }, signal })),
  })
}

/** The task it holds or held; null for a sandbox that was attached without one. */
export function sandboxTask(id: string) {
  return queryOptions({
    queryKey: ['sandbox', id, 'task'],
    queryFn: async ({ signal }): Promise<Task | null> => {
      try {
        return await ask(api.GET('/api/v1/sandboxes/{id}/task', { params: { path: { id } }, signal }))
      } catch (error) {
        if (error instanceof Problem && error.status === 404) return null
        throw error
      }
    },
  })
}

/** Every attempt at a task and what its checks came to. */
export function taskEvidence(task: string) {
  return queryOptions({
    queryKey: ['task', task, 'evidence'],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/tasks/{id}/evidence', { params: { path: { id: task } }, signal })),
  })
}

/** What its model calls have cost, in all. */
export function sandboxCosts(id: string) {
  return queryOptions({
    queryKey: ['sandbox', id, 'costs'],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/costs', { params: { query: { sandbox_id: id, limit: 1 } }, signal })),
  })
}

export function sandboxStop(id: string) {
  const body = { reason: 'stopped from its page' }
  return ask(api.POST('/api/v1/sandboxes/{id}/terminate', { params: { path: { id } }, body }))
}

/** Has work rescued again that could not be kept. */
export function sandboxRescue(id: string) {
  return ask(api.POST('/api/v1/sandboxes/{id}/rescue', { params: { path: { id } } }))
}

/** Gives up work that could not be kept. */
export function sandboxDiscard(id: string) {
  const body = { reason: 'discarded on its page' }
  return ask(api.POST('/api/v1/sandboxes/{id}/discard', { params: { path: { id } }, body }))
}

/** Puts a task back that is over, and orders a sandbox for it. */
export async function taskAgain({ id, project_id }: Task): Promise<string> {
  await ask(api.POST('/api/v1/tasks/{id}/retry', { params: { path: { id } } }))
  const params = { path: { id: project_id } }
  return (await ask(api.POST('/api/v1/projects/{id}/sandboxes', { params, body: { task_id: id } }))).id
}

export async function eventHistory(id: string, query: HistoryQuery): Promise<StoredEvent[]> {
  const page = await ask(api.GET('/api/v1/sandboxes/{id}/events', { params: { path: { id }, query } }))
  return page.events
}

const MESSAGES = 20

/** The latest messages, newest first. */
export function messageList(id: string) {
  return queryOptions({
    queryKey: ['sandbox', id, 'messages'],
    queryFn: ({ signal }) => {
      const params = { path: { id }, query: { history: true, limit: MESSAGES } }
      return ask(api.GET('/api/v1/sandboxes/{id}/messages', { params, signal }))
    },
  })
}

export function messageSend(id: string, content: string, type: MessageType) {
  const body = { content, message_type: type }
  return ask(api.POST('/api/v1/sandboxes/{id}/messages', { params: { path: { id } }, body }))
}

/** Brings what is shown beside the events of a sandbox up to date with what the stream says. */
export function applyLive(queries: QueryClient, id: string, event: LiveEvent) {
  if (typeof event.seq === 'number') return applyOwn(queries, id, event)
  switch (event.event_type) {
    case 'SANDBOX_MESSAGE_QUEUED':
      void queries.invalidateQueries({ queryKey: messageList(id).queryKey })
      break
    case 'SANDBOX_MESSAGE_STATE': {
      const told = event.payload as { message_id?: string; state?: MessageState }
      const shown = queries.getQueryData(messageList(id).queryKey)
      if (shown && told.state) queries.setQueryData(messageList(id).queryKey, advance(shown, told.message_id, told.state))
      // The times of the states are the server's to tell.
      void queries.invalidateQueries({ queryKey: messageList(id).queryKey })
      break
    }
    default:
      void queries.invalidateQueries({ queryKey: sandboxOne(id).queryKey })
  }
}

/** Its first event makes a sandbox a running one; after that only heartbeats say something about it. */
function applyOwn(queries: QueryClient, id: string, event: LiveEvent) {
  const { queryKey } = sandboxOne(id)
  if (HEARTBEATS.includes(event.event_type)) {
    queries.setQueryData(queryKey, (sandbox) => sandbox && { ...sandbox, last_heartbeat_at: event.timestamp })
  }
  if (queries.getQueryData(queryKey)?.status === 'creating') void queries.invalidateQueries({ queryKey })
}

const ORDER: MessageState[] = ['queued', 'delivered', 'injected', 'acknowledged', 'expired']

/** A message never goes back to an earlier state, even when notices overtake each other. */
export function advance<M extends Message>(messages: M[], id: string | undefined, state: MessageState): M[] {
  return messages.map((message) =>
    message.id === id && ORDER.indexOf(state) > ORDER.indexOf(message.state) ? { ...message, state } : message,
  )
}
