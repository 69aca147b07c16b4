// What the monitor asks the server for. All keys but the figures' begin with one word, so that one change reaches all.

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, ask } from '../../api/client'
import type { Action, Anomaly, Conflict, Diagnosis, Duplicate, GuardianFinding, GuardianIntervention, MetricRange, Priority, Task } from '../../api/types'

const PAGE = 50
const MANY = 500

export type Paged<T> = { items: T[]; next?: string | null }
type Asking = { limit: number; cursor?: string }

/** A list that goes on for as long as somebody asks for more. */
function paged<T>(key: readonly unknown[], call: (query: Asking, signal: AbortSignal) => Promise<Paged<T>>) {
  return infiniteQueryOptions({
    queryKey: ['supervision', ...key],
    queryFn: ({ pageParam, signal }) => call({ limit: PAGE, ...(pageParam && { cursor: pageParam }) }, signal),
    initialPageParam: '',
    getNextPageParam: (page) => page.next ?? undefined,
  })
}

export function guardianStatus() {
  return queryOptions({
    queryKey: ['supervision', 'guardian'],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/guardian/status', { signal })),
  })
}

export function conductorStatus() {
  return queryOptions({
    queryKey: ['supervision', 'conductor'],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/conductor/status', { signal })),
  })
}

/** The server takes figures this often and stores no event about it. */
export const FIGURES_MS = 30_000

/** Asked for at intervals as well: on a full disk no event is stored that could tell of a change. */
export function dashboard() {
  return queryOptions({
    queryKey: ['supervision', 'dashboard'],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/monitor/dashboard', { signal })),
    refetchInterval: FIGURES_MS,
  })
}

export function metrics(range: MetricRange) {
  return queryOptions({
    queryKey: ['figures', 'metrics', range],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/monitor/metrics', { params: { query: { range } }, signal })),
  })
}

/** Newest first: of all projects together. */
export function analyses() {
  return queryOptions({
    queryKey: ['figures', 'analyses'],
    queryFn: async ({ signal }) => (await ask(api.GET('/api/v1/conductor/analyses', { params: { query: { limit: MANY } }, signal }))).items,
  })
}

export function watchedSandboxes() {
  return queryOptions({
    queryKey: ['supervision', 'sandboxes'],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/sandboxes', { params: { query: { live: true, limit: PAGE } }, signal })),
  })
}

export function openFindings() {
  return queryOptions({
    queryKey: ['supervision', 'findings', 'open'],
    queryFn: async ({ signal }) => (await ask(api.GET('/api/v1/findings', { params: { query: { open: true, limit: MANY } }, signal }))).items,
  })
}

export function sandboxSummary(id: string) {
  return queryOptions({
    queryKey: ['supervision', 'summary', id],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/sandboxes/{id}/summary', { params: { path: { id } }, signal })),
  })
}

export function findingList(project: string | undefined, isAll: boolean) {
  return paged<GuardianFinding>(['findings', project, isAll], (query, signal) =>
    ask(api.GET('/api/v1/findings', { params: { query: { ...query, ...(project && { project_id: project }), ...(!isAll && { open: true }) } }, signal })),
  )
}

export function interventionList(project: string | undefined) {
  return paged<GuardianIntervention>(['interventions', project], (query, signal) =>
    ask(api.GET('/api/v1/interventions', { params: { query: { ...query, ...(project && { project_id: project }) } }, signal })),
  )
}

export function approve(id: string, text: string | undefined) {
  return ask(api.POST('/api/v1/interventions/{id}/approve', { params: { path: { id } }, body: text === undefined ? {} : { text } }))
}

export function dismiss(id: string) {
  return ask(api.POST('/api/v1/interventions/{id}/dismiss', { params: { path: { id } }, body: {} }))
}

export function matrix(project: string) {
  return queryOptions({
    queryKey: ['supervision', 'matrix', project],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/conductor/matrix', { params: { query: { project_id: project } }, signal })),
  })
}

export function conflictList(project: string, isAll: boolean) {
  return paged<Conflict>(['conflicts', project, isAll], (query, signal) =>
    ask(api.GET('/api/v1/conductor/conflicts', { params: { query: { ...query, project_id: project, ...(!isAll && { open: true }) } }, signal })),
  )
}

export function duplicateList(project: string, isAll: boolean) {
  return paged<Duplicate>(['duplicates', project, isAll], (query, signal) =>
    ask(api.GET('/api/v1/conductor/duplicates', { params: { query: { ...query, project_id: project, ...(!isAll && { open: true }) } }, signal })),
  )
}

export function duplicateDismiss(id: string) {
  return ask(api.POST('/api/v1/conductor/duplicates/{id}/dismiss', { params: { path: { id } } }))
}

export function anomalyList(isAll: boolean) {
  return paged<Anomaly>(['anomalies', isAll], (query, signal) =>
    ask(api.GET('/api/v1/monitor/anomalies', { params: { query: { ...query, ...(!isAll && { open: true }) } }, signal })),
  )
}

export function acknowledge(id: string) {
  return ask(api.POST('/api/v1/monitor/anomalies/{id}/acknowledge', { params: { path: { id } } }))
}

export function diagnosisList(project: string | undefined, isAll: boolean) {
  return paged<Diagnosis>(['diagnoses', project, isAll], (query, signal) =>
    ask(api.GET('/api/v1/diagnoses', { params: { query: { ...query, ...(project && { project_id: project }), ...(!isAll && { state: 'open' as const }) } }, signal })),
  )
}

/** Some of what is proposed, counted from 0. */
export function diagnosisAccept(id: string, proposals: number[]) {
  return ask(api.POST('/api/v1/diagnoses/{id}/accept', { params: { path: { id } }, body: { proposals } }))
}

export function diagnosisDismiss(id: string) {
  return ask(api.POST('/api/v1/diagnoses/{id}/dismiss', { params: { path: { id } } }))
}

export function policyOf(project: string) {
  return queryOptions({
    queryKey: ['supervision', 'policy', project],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/projects/{id}/policy', { params: { path: { id: project } }, signal })),
  })
}

/** Refused where somebody has changed it since that version. */
export function policyPut(project: string, text: string, version: number | undefined) {
  const body = { text, ...(version !== undefined && { version }) }
  return ask(api.PUT('/api/v1/projects/{id}/policy', { params: { path: { id: project } }, body }))
}

export function policyDelete(project: string) {
  return ask(api.DELETE('/api/v1/projects/{id}/policy', { params: { path: { id: project } } }))
}

export function policyTry(project: string, text: string) {
  return ask(api.POST('/api/v1/projects/{id}/policy/try', { params: { path: { id: project } }, body: { text } }))
}

export function actionList(project: string | undefined) {
  return paged<Action>(['actions', project], (query, signal) =>
    ask(api.GET('/api/v1/guardian/actions', { params: { query: { ...query, ...(project && { project_id: project }) } }, signal })),
  )
}

export function actionRevert(id: string) {
  return ask(api.POST('/api/v1/guardian/actions/{id}/revert', { params: { path: { id } } }))
}

export function projectHold(project: string, isPaused: boolean, reason: string) {
  const body = { project_id: project, reason }
  return isPaused
    ? ask(api.POST('/api/v1/guardian/intervention/pause', { body }))
    : ask(api.POST('/api/v1/guardian/intervention/resume', { body }))
}

export function taskCancel(task: string, reason: string) {
  return ask(api.POST('/api/v1/guardian/intervention/cancel-task', { body: { task_id: task, reason } }))
}

export function priorityOverride(task: string, priority: Priority, reason: string) {
  return ask(api.POST('/api/v1/guardian/intervention/override-priority', { body: { task_id: task, priority, reason } }))
}

export function placesMove(from: string, to: string, capacity: number, reason: string) {
  const body = { from_project_id: from, to_project_id: to, capacity, reason }
  return ask(api.POST('/api/v1/guardian/intervention/reallocate', { body }))
}

/** What an order can be about; those at work first. */
export function openTasks(project: string) {
  return queryOptions({
    queryKey: ['supervision', 'tasks', project],
    queryFn: async ({ signal }): Promise<Task[]> => {
      const pages = (['running', 'assigned', 'pending'] as const).map((status) =>
        ask(api.GET('/api/v1/tasks', { params: { query: { project_id: project, status, limit: MANY } }, signal })),
      )
      return (await Promise.all(pages)).flatMap((page) => page.items)
    },
  })
}

/** For choices, and to name projects by. */
export function projectNames() {
  return queryOptions({
    queryKey: ['projects', 'choice'],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/projects', { params: { query: { limit: MANY } }, signal })),
  })
}
