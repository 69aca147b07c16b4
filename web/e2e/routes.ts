// Every page there is. A route that is missing here fails the test that compares this list with the router's.

import type { Furnished } from './furnish'

export type Route = {
  name: string
  /** As the router names it. */
  route: string
  path: (data: Furnished) => string
  /** Shown to those who are not signed in. */
  isPublic?: true
}

export const ROUTES: Route[] = [
  { name: 'login', route: '/login', path: () => '/login', isPublic: true },
  { name: 'home', route: '/', path: () => '/' },
  { name: 'sandboxes', route: '/sandboxes', path: () => '/sandboxes' },
  { name: 'sandbox-done', route: '/sandboxes/$id', path: ({ done }) => `/sandboxes/${done}` },
  { name: 'sandbox-diff', route: '/sandboxes/$id', path: ({ done }) => `/sandboxes/${done}?tab=files` },
  { name: 'sandbox-details', route: '/sandboxes/$id', path: ({ done }) => `/sandboxes/${done}?tab=details` },
  { name: 'sandbox-failed', route: '/sandboxes/$id', path: ({ broken }) => `/sandboxes/${broken}` },
  { name: 'sandbox-live', route: '/sandboxes/$id', path: ({ live }) => `/sandboxes/${live}` },
  { name: 'new-task', route: '/sandboxes/new', path: () => '/sandboxes/new' },
  { name: 'board', route: '/board', path: () => '/board' },
  { name: 'board-list', route: '/board', path: () => '/board?view=list' },
  { name: 'board-tickets', route: '/board', path: () => '/board?view=tickets' },
  { name: 'board-drawer', route: '/board', path: ({ failed }) => `/board?task=${failed}` },
  { name: 'graph', route: '/graph', path: ({ project }) => `/graph?id=${project}` },
  { name: 'compare', route: '/compare', path: ({ done, broken }) => `/compare?a=${done}&b=${broken}` },
  { name: 'tasks', route: '/tasks', path: () => '/tasks' },
  { name: 'task-completed', route: '/tasks/$id', path: ({ completed }) => `/tasks/${completed}` },
  { name: 'task-proof', route: '/tasks/$id', path: ({ completed }) => `/tasks/${completed}?tab=proof` },
  { name: 'task-changes', route: '/tasks/$id', path: ({ completed }) => `/tasks/${completed}?tab=changes` },
  { name: 'task-history', route: '/tasks/$id', path: ({ completed }) => `/tasks/${completed}?tab=history` },
  { name: 'task-failed', route: '/tasks/$id', path: ({ failed }) => `/tasks/${failed}` },
  { name: 'task-blocked', route: '/tasks/$id', path: ({ blocked }) => `/tasks/${blocked}` },
  { name: 'specs', route: '/specs', path: () => '/specs' },
  { name: 'new-spec', route: '/specs/new', path: () => '/specs/new' },
  { name: 'spec', route: '/specs/$id', path: ({ spec }) => `/specs/${spec}` },
  { name: 'projects', route: '/projects', path: () => '/projects' },
  { name: 'new-project', route: '/projects/new', path: () => '/projects/new' },
  { name: 'project', route: '/projects/$id', path: ({ project }) => `/projects/${project}` },
  { name: 'monitor', route: '/monitor', path: () => '/monitor' },
  { name: 'monitor-findings', route: '/monitor', path: () => '/monitor?tab=findings&all=true' },
  { name: 'monitor-radar', route: '/monitor', path: ({ project }) => `/monitor?tab=radar&all=true&project=${project}` },
  { name: 'monitor-anomalies', route: '/monitor', path: () => '/monitor?tab=anomalies&all=true' },
  { name: 'monitor-diagnoses', route: '/monitor', path: () => '/monitor?tab=diagnoses&all=true' },
  { name: 'monitor-policies', route: '/monitor', path: ({ project }) => `/monitor?tab=policies&project=${project}` },
  { name: 'monitor-actions', route: '/monitor', path: () => '/monitor?tab=actions' },
  { name: 'agents', route: '/agents', path: () => '/agents' },
  { name: 'costs', route: '/costs', path: () => '/costs' },
  { name: 'audit', route: '/audit', path: () => '/audit' },
  { name: 'settings', route: '/settings', path: () => '/settings' },
  { name: 'settings-tokens', route: '/settings/$section', path: () => '/settings/tokens' },
  { name: 'settings-appearance', route: '/settings/$section', path: () => '/settings/appearance' },
  { name: 'no-such-page', route: '$', path: () => '/no/such/page' },
]

/** Ids of nothing: what pages say when what they are asked for is not there. */
export const NOTHING: Furnished = {
  project: 'prj-00000000000070008000000000000000',
  completed: 'task-00000000000070008000000000000001',
  failed: 'task-00000000000070008000000000000002',
  blocked: 'task-00000000000070008000000000000003',
  done: 'sbx-00000000000070008000000000000001',
  broken: 'sbx-00000000000070008000000000000002',
  live: 'sbx-00000000000070008000000000000003',
  spec: 'spec-00000000000070008000000000000001',
}

export const WIDTHS = [1440, 390] as const
export const THEMES = ['dark', 'light'] as const
