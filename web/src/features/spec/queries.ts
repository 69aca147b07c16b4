// What the spec pages ask the server for. All of one spec is under its id, so that one change reaches all of it.

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, ask } from '../../api/client'
import type { Project, Spec, SpecFiles, SpecFlow, SpecLayout, SpecPhase, SpecVersion } from '../../api/types'
import type { SpecListSearch } from './search'

type List<T> = { items: T[]; next?: string | null }

/** Scores and costs are told of one spec alone, so that each row asks for its own. */
const ROWS = 25
const PROJECTS = 500
const VERSIONS = 50
const EVENTS = 20

export function specList({ project, status }: SpecListSearch) {
  return infiniteQueryOptions({
    queryKey: ['specs', { project, status }],
    queryFn: ({ pageParam, signal }): Promise<List<Spec>> => {
      const query = {
        archived: false,
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

/** A spec that was written elsewhere: the text of each file by its path. */
export function specImport(project: string, title: string, files: Record<string, string>) {
  const body = { project_id: project, files, ...(title && { title }) }
  return ask(api.POST('/api/v1/specs/import', { body }))
}
