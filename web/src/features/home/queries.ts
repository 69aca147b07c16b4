// What the first page asks the server for. Keys begin as those of the other pages do, so that one change reaches all.

import { queryOptions } from '@tanstack/react-query'
import { api, ask } from '../../api/client'
import type { Anomaly, Diagnosis, GuardianIntervention, Sandbox, Spec, Task, TaskStatus } from '../../api/types'

type List<T> = { items: T[]; next?: string | null }
const LIVE = 50
const TASKS = 50
const LATELY = 8

export function liveSandboxes() {
  return queryOptions({
    queryKey: ['sandboxes', 'home', 'live'],
    queryFn: ({ signal }): Promise<List<Sandbox>> =>
      ask(api.GET('/api/v1/sandboxes', { params: { query: { live: true, limit: LIVE } }, signal })),
  })
}

/** Tasks with a live sandbox. */
export function heldTasks() {
  return queryOptions({
    queryKey: ['tasks', 'home', 'held'],
    queryFn: ({ signal }): Promise<List<Task>> =>
      ask(api.GET('/api/v1/tasks', { params: { query: { has_sandbox: true, limit: LIVE } }, signal })),
  })
}

export function tasksIn(status: TaskStatus) {
  return queryOptions({
    queryKey: ['tasks', 'home', status],
    queryFn: ({ signal }): Promise<List<Task>> =>
      ask(api.GET('/api/v1/tasks', { params: { query: { status, limit: TASKS } }, signal })),
  })
}

const newestFirst = (a: Sandbox, b: Sandbox) => (b.ended_at ?? '').localeCompare(a.ended_at ?? '')

/** Attempts that went wrong, whatever became of their tasks. */
export function wrongSandboxes() {
  return queryOptions({
    queryKey: ['sandboxes', 'home', 'wrong'],
    queryFn: async ({ signal }): Promise<Sandbox[]> => {
      const ended = await Promise.all(
        (['failed', 'lost'] as const).map((status): Promise<List<Sandbox>> =>
          ask(api.GET('/api/v1/sandboxes', { params: { query: { status, limit: LATELY } }, signal })),
        ),
      )
      return ended
        .flatMap(({ items }) => items)
        .toSorted(newestFirst)
        .slice(0, LATELY)
    },
  })
}

/** Ended sandboxes whose work could not be kept. */
export function unkeptSandboxes() {
  return queryOptions({
    queryKey: ['sandboxes', 'home', 'unkept'],
    queryFn: ({ signal }): Promise<List<Sandbox>> =>
      ask(api.GET('/api/v1/sandboxes', { params: { query: { unkept: true, limit: LIVE } }, signal })),
  })
}

/** Specs with a phase that a person has to approve. */
export function waitingSpecs() {
  return queryOptions({
    queryKey: ['specs', 'home', 'waiting'],
    queryFn: ({ signal }): Promise<List<Spec>> =>
      ask(api.GET('/api/v1/specs', { params: { query: { status: 'waiting', archived: false, limit: TASKS } }, signal })),
  })
}

/** What the Guardian would do if a person agreed. */
export function suggestions() {
  return queryOptions({
    queryKey: ['supervision', 'needs', 'suggestions'],
    queryFn: ({ signal }): Promise<List<GuardianIntervention>> =>
      ask(api.GET('/api/v1/interventions', { params: { query: { waiting: true, limit: TASKS } }, signal })),
  })
}

/** Why tickets are stuck, with what could be done. */
export function diagnosesOpen() {
  return queryOptions({
    queryKey: ['supervision', 'needs', 'diagnoses'],
    queryFn: ({ signal }): Promise<List<Diagnosis>> =>
      ask(api.GET('/api/v1/diagnoses', { params: { query: { state: 'open', limit: TASKS } }, signal })),
  })
}

export function anomaliesOpen() {
  return queryOptions({
    queryKey: ['supervision', 'needs', 'anomalies'],
    queryFn: ({ signal }): Promise<List<Anomaly>> =>
      ask(api.GET('/api/v1/monitor/anomalies', { params: { query: { open: true, limit: TASKS } }, signal })),
  })
}

/** Sums since a time; the calls themselves are of no interest here. */
export function costsSince(since: string) {
  return queryOptions({
    queryKey: ['costs', since],
    queryFn: async ({ signal }) =>
      (await ask(api.GET('/api/v1/costs', { params: { query: { since, limit: 1 } }, signal }))).totals,
  })
}

export function anyProject() {
  return queryOptions({
    queryKey: ['projects', 'home'],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/projects', { params: { query: { limit: 1 } }, signal })),
  })
}

export function taskName(id: string) {
  return queryOptions({
    queryKey: ['task', id],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/tasks/{id}', { params: { path: { id } }, signal })),
  })
}
