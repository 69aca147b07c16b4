// What the spec pages ask the server for. All of one spec is under its id, so that one change reaches all of it.

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, ask } from '../../api/client'
import type { Project, SpecFiles, SpecFlow, SpecLayout, SpecPhase, SpecSummary, SpecVersion } from '../../api/types'
import type { SpecListSearch } from './search'

type List<T> = { items: T[]; next?: string | null }

const ROWS = 50
const PROJECTS = 500
const VERSIONS = 50
const EVENTS = 20

export function specList({ project, status, archived = false }: SpecListSearch) {
  return infiniteQueryOptions({
    queryKey: ['specs', { project, status, archived }],
    queryFn: ({ pageParam, signal }): Promise<List<SpecSummary>> => {
      const query = {
        archived,
        limit: ROWS,
        ...(project && { project_id: project }),
        ...(status && { status }),
        ...(pageParam && { cursor: pageParam }),
      }
      return ask(api.GET('/api/v1/specs', { params: { query }, signal }))
    },
    initialPageParam: '',
    getNextPageParam: (page) => page.next ?? undefined,
  })
}

export function specOne(id: string) {
  return queryOptions({
    queryKey: ['spec', id],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/specs/{id}', { params: { path: { id } }, signal })),
  })
}

/** The last attempt unless another is named. */
export function specPhase(id: string, phase: SpecPhase, attempt?: number) {
  return queryOptions({
    queryKey: ['spec', id, 'phase', phase, attempt ?? 'last'],
    queryFn: ({ signal }) => {
      const params = { path: { id, phase }, query: attempt === undefined ? {} : { attempt } }
      return ask(api.GET('/api/v1/specs/{id}/phases/{phase}', { params, signal }))
    },
  })
}

export function specCoverage(id: string) {
  return queryOptions({
    queryKey: ['spec', id, 'coverage'],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/specs/{id}/coverage', { params: { path: { id } }, signal })),
  })
}

/** Newest first. */
export function specVersions(id: string) {
  return infiniteQueryOptions({
    queryKey: ['spec', id, 'versions'],
    queryFn: ({ pageParam, signal }): Promise<List<SpecVersion>> => {
      const query = { limit: VERSIONS, ...(pageParam && { cursor: pageParam }) }
      return ask(api.GET('/api/v1/specs/{id}/versions', { params: { path: { id }, query }, signal }))
    },
    initialPageParam: '',
    getNextPageParam: (page) => page.next ?? undefined,
  })
}

/** What stands of it, as files. */
export function specExport(id: string, layout: SpecLayout) {
  return queryOptions({
    queryKey: ['spec', id, 'export', layout],
    queryFn: ({ signal }): Promise<SpecFiles> =>
      ask(api.GET('/api/v1/specs/{id}/export', { params: { path: { id }, query: { layout } }, signal })),
  })
}

export function projectChoice() {
  return queryOptions({
    queryKey: ['projects', 'choice'],
    queryFn: ({ signal }): Promise<List<Project>> =>
      ask(api.GET('/api/v1/projects', { params: { query: { limit: PROJECTS } }, signal })),
  })
}

/** The newest events of a sandbox but its heartbeats, newest first. */
export function lastEvents(sandbox: string) {
  return queryOptions({
    queryKey: ['doing', sandbox],
    queryFn: async ({ signal }) => {
      const params = { path: { id: sandbox }, query: { limit: EVENTS } }
      return (await ask(api.GET('/api/v1/sandboxes/{id}/trajectory', { params, signal }))).events
    },
    staleTime: Infinity,
  })
}

/** Which phases of a project's specs wait for a person, where a spec does not say. */
export function projectGates(project: string) {
  return queryOptions({
    queryKey: ['projects', 'gates', project],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/projects/{id}/spec-gates', { params: { path: { id: project } }, signal })),
  })
}

export type NewSpecBody = { project_id: string; title: string; description: string; flow: SpecFlow; gates?: SpecPhase[] }

export function specCreate(body: NewSpecBody) {
  return ask(api.POST('/api/v1/specs', { body }))
}

/** Goes on where it stands, or redoes a phase and those behind it. */
export function specExecute(id: string, from?: SpecPhase) {
  const body = { enable_embeddings: true, resume_from_phase: from ?? null }
  return ask(api.POST('/api/v1/specs/{id}/execute', { params: { path: { id } }, body }))
}

/** What a decision is about: a phase, of the version that was seen. */
export type Seen = { id: string; version: number; phase: SpecPhase }

export function specApprove({ id, version, phase }: Seen, comment: string) {
  return ask(api.POST('/api/v1/specs/{id}/approve', { params: { path: { id } }, body: { phase, version, comment } }))
}

export function specRequestChanges({ id, version, phase }: Seen, comment: string) {
  const body = { phase, version, comment }
  return ask(api.POST('/api/v1/specs/{id}/request-changes', { params: { path: { id } }, body }))
}

export function specEdit({ id, version, phase }: Seen, output: Record<string, unknown>, comment: string) {
  const params = { path: { id, phase } }
  return ask(api.PUT('/api/v1/specs/{id}/phases/{phase}', { params, body: { version, output, comment } }))
}

/** The phases of a spec that wait for a person, from the version on that was seen. */
export function specGates(id: string, version: number, gates: SpecPhase[]) {
  return ask(api.PATCH('/api/v1/specs/{id}', { params: { path: { id } }, body: { version, gates } }))
}

export function specArchive(id: string) {
  return ask(api.POST('/api/v1/specs/{id}/archive', { params: { path: { id } } }))
}

/** Whatever has become of it meanwhile. */
export async function specBringBack(id: string) {
  const params = { path: { id } }
  const { version } = await ask(api.GET('/api/v1/specs/{id}', { params }))
  return ask(api.PATCH('/api/v1/specs/{id}', { params, body: { version, archived: false } }))
}

/** An existing task stands in the place of one that the spec has made. */
export function duplicateLink(id: string, symbol: string, existing: string) {
  const body = { symbol, decision: 'link', existing_task_id: existing } as const
  return ask(api.POST('/api/v1/specs/{id}/duplicates', { params: { path: { id } }, body }))
}

/** It is other work than what exists. */
export function duplicateKeep(id: string, symbol: string) {
  return ask(api.POST('/api/v1/specs/{id}/duplicates', { params: { path: { id } }, body: { symbol, decision: 'keep' } }))
}

/** Has the branch made that holds the work of all tasks which are completed by then. */
export function specCombine(id: string) {
  return ask(api.POST('/api/v1/specs/{id}/branch', { params: { path: { id } } }))
}

/** A spec that was written elsewhere: the text of each file by its path. */
export function specImport(project: string, title: string, files: Record<string, string>) {
  const body = { project_id: project, files, ...(title && { title }) }
  return ask(api.POST('/api/v1/specs/import', { body }))
}
