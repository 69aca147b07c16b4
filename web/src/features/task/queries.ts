// What the task pages ask the server for.

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, ask } from '../../api/client'
import { Problem } from '../../api/problem'
import type { AuditEntry, NewTask, Priority, Sandbox, Task, TaskStatus } from '../../api/types'
import type { TaskBody } from './newTask'

export type TaskPage = { items: Task[]; next?: string | null }

export function taskList(status: TaskStatus | undefined) {
  return infiniteQueryOptions({
    queryKey: ['tasks', { status }],
    queryFn: ({ pageParam, signal }): Promise<TaskPage> => {
      const query = { ...(status && { status }), ...(pageParam && { cursor: pageParam }) }
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

export function taskPriority(id: string, priority: Priority) {
  return ask(api.PATCH('/api/v1/tasks/{id}', { params: { path: { id } }, body: { priority } }))
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

export function taskRetry(id: string) {
  return ask(api.POST('/api/v1/tasks/{id}/retry', { params: { path: { id } } }))
}

export function taskCancel(id: string) {
  return ask(api.POST('/api/v1/tasks/{id}/cancel', { params: { path: { id } }, body: {} }))
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
