// What the project pages ask the server for.

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, ask } from '../../api/client'
import type { Project, ProjectPatch, SpecPhase } from '../../api/types'

export function projectList() {
  return infiniteQueryOptions({
    queryKey: ['projects', 'list'],
    queryFn: ({ pageParam, signal }): Promise<{ items: Project[]; next?: string | null }> => {
      const query = pageParam ? { cursor: pageParam } : {}
      return ask(api.GET('/api/v1/projects', { params: { query }, signal }))
    },
    initialPageParam: '',
    getNextPageParam: (page) => page.next ?? undefined,
  })
}

export function projectOne(id: string) {
  return queryOptions({
    queryKey: ['projects', 'one', id],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/projects/{id}', { params: { path: { id } }, signal })),
  })
}

export function projectCreate(name: string, repository: string, branch: string) {
  const body = { name, repository_url: repository, default_branch: branch || 'main' }
  return ask(api.POST('/api/v1/projects', { body }))
}

export function projectUpdate(id: string, body: ProjectPatch) {
  return ask(api.PATCH('/api/v1/projects/{id}', { params: { path: { id } }, body }))
}

/** Which phases of its specs wait for a person, where a spec does not say. */
export function projectGates(id: string) {
  return queryOptions({
    queryKey: ['projects', 'gates', id],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/projects/{id}/spec-gates', { params: { path: { id } }, signal })),
  })
}

/** Null leaves it to Omoi. */
export function projectGatesSet(id: string, gates: SpecPhase[] | null) {
  return ask(api.PUT('/api/v1/projects/{id}/spec-gates', { params: { path: { id } }, body: { gates } }))
}
