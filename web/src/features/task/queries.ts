// What the task pages ask the server for.

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, ask } from '../../api/client'
import { Problem } from '../../api/problem'
import type { AuditEntry, NewTask, Priority, Sandbox, Task, TaskStatus, Ticket, TicketPatch } from '../../api/types'
import type { TaskBody } from './newTask'

export type TaskPage = { items: Task[]; next?: string | null }

export type TaskFilter = { status?: TaskStatus; project?: string; ticket?: string }

/** Tasks, newest first, so many at a time. */
export function taskPages(filter: TaskFilter, limit: number) {
  return infiniteQueryOptions({
    queryKey: ['tasks', 'pages', filter, limit],
    queryFn: ({ pageParam, signal }): Promise<TaskPage> => {
      const { status, project, ticket } = filter
      const query = {
        limit,
        ...(status && { status }),
        ...(project && { project_id: project }),
        ...(ticket && { ticket_id: ticket }),
        ...(pageParam && { cursor: pageParam }),
      }
      return ask(api.GET('/api/v1/tasks', { params: { query }, signal }))
    },
    initialPageParam: '',
    getNextPageParam: (page) => page.next ?? undefined,
  })
}

export function taskOne(id: string) {
  return queryOptions({
    queryKey: ['task', id],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/tasks/{id}', { params: { path: { id } }, signal })),
  })
}

const ATTEMPTS = 100

/** The sandboxes of a task, newest first. */
export function taskAttempts(id: string) {
  return queryOptions({
    queryKey: ['task', id, 'attempts'],
    queryFn: ({ signal }): Promise<{ items: Sandbox[]; next?: string | null }> => {
      const query = { task_id: id, limit: ATTEMPTS }
      return ask(api.GET('/api/v1/sandboxes', { params: { query }, signal }))
    },
  })
}

export function taskDependencies(id: string) {
  return queryOptions({
    queryKey: ['task', id, 'dependencies'],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/tasks/{id}/dependencies', { params: { path: { id } }, signal })),
  })
}

export function taskEvidence(id: string) {
  return queryOptions({
    queryKey: ['task', id, 'evidence'],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/tasks/{id}/evidence', { params: { path: { id } }, signal })),
  })
}

export const EDITS_MAX = 500

/** The last edits of an attempt, newest first. */
export function attemptEdits(id: string, sandbox: string) {
  return queryOptions({
    queryKey: ['task', id, 'edits', sandbox],
    queryFn: async ({ signal }) => {
      const params = { path: { id: sandbox }, query: { event_type: 'agent.file_edited', limit: EDITS_MAX } }
      return (await ask(api.GET('/api/v1/sandboxes/{id}/events', { params, signal }))).events
    },
  })
}

const TICKETS = 500

/** The newest tickets, of one project or of all. */
export function ticketList(project: string | undefined) {
  return queryOptions({
    queryKey: ['tickets', { project }],
    queryFn: async ({ signal }): Promise<Ticket[]> => {
      const query = { limit: TICKETS, ...(project && { project_id: project }) }
      return (await ask(api.GET('/api/v1/tickets', { params: { query }, signal }))).items
    },
  })
}

const DEEDS_MAX = 200

/** What people did to the task; for admins only. */
export function taskAudit(id: string) {
  return queryOptions({
    queryKey: ['task', id, 'audit'],
    queryFn: async ({ signal }): Promise<AuditEntry[]> => {
      const query = { entity_id: id, limit: DEEDS_MAX }
      return (await ask(api.GET('/api/v1/audit', { params: { query }, signal }))).items
    },
  })
}

export function ticketChange(id: string, body: TicketPatch) {
  return ask(api.PATCH('/api/v1/tickets/{id}', { params: { path: { id } }, body }))
}

export function ticketOne(id: string) {
  return queryOptions({
    queryKey: ['ticket', id],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/tickets/{id}', { params: { path: { id } }, signal })),
  })
}

const PROJECTS = 500

export function projectChoice() {
  return queryOptions({
    queryKey: ['projects', 'choice'],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/projects', { params: { query: { limit: PROJECTS } }, signal })),
  })
}

export function taskCreate(body: TaskBody) {
  return ask(api.POST('/api/v1/tasks', { body: body as NewTask }))
}

/** From now on its project decides again whether a sandbox is made for it without anybody asking. */
export async function taskRelease({ id, execution_config: { autonomous: _held, ...config } }: Pick<Task, 'id' | 'execution_config'>) {
  await ask(api.PATCH('/api/v1/tasks/{id}', { params: { path: { id } }, body: { execution_config: config } }))
}

export function taskRetry(id: string) {
  return ask(api.POST('/api/v1/tasks/{id}/retry', { params: { path: { id } } }))
}

export function taskCancel(id: string) {
  return ask(api.POST('/api/v1/tasks/{id}/cancel', { params: { path: { id } }, body: {} }))
}

export function taskPriority(id: string, priority: Priority) {
  return ask(api.PATCH('/api/v1/tasks/{id}', { params: { path: { id } }, body: { priority } }))
}

/** Orders a sandbox for a pending task; where another holds it already, that one. */
export async function taskStart(task: Pick<Task, 'id' | 'project_id'>, base?: string): Promise<string> {
  const params = { path: { id: task.project_id } }
  const body = { task_id: task.id, ...(base && { base }) }
  try {
    return (await ask(api.POST('/api/v1/projects/{id}/sandboxes', { params, body }))).id
  } catch (error) {
    if (!(error instanceof Problem && error.code === 'task_held')) throw error
    const held = await ask(api.GET('/api/v1/tasks/{id}', { params: { path: { id: task.id } } }))
    if (!held.sandbox_id) throw error
    return held.sandbox_id
  }
}
