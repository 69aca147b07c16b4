// Which sandboxes a list shows and in which order; what of that is in its address.

import type { Sandbox, SandboxStatus } from '../../api/types'

/** A record, so that a status which is new in the document fails the type check until it is listed. */
const STATUSES: Record<SandboxStatus, true> = {
  creating: true,
  running: true,
  completed: true,
  failed: true,
  lost: true,
  terminated: true,
}
export const SANDBOX_STATUSES = Object.keys(STATUSES) as SandboxStatus[]

export type StateFilter = SandboxStatus | 'live' | 'all'
export const STATE_FILTERS: readonly StateFilter[] = ['all', 'live', ...SANDBOX_STATUSES]

export const SORTS = ['created', 'heartbeat', 'cost', 'task', 'state'] as const
export type Sort = (typeof SORTS)[number]

export type ListSearch = {
  state?: Exclude<StateFilter, 'all'> | undefined
  provider?: string | undefined
  q?: string | undefined
  /** With `-` the other way round. */
  sort?: Sort | `-${Sort}` | undefined
}

export function asListSearch(search: Record<string, unknown>): ListSearch {
  const state = STATE_FILTERS.find((one) => one === search.state)
  const sort = SORTS.flatMap((one) => [one, `-${one}` as const]).find((one) => one === search.sort)
  const { provider, q } = search
  return {
    ...(state && state !== 'all' && { state }),
    ...(typeof provider === 'string' && provider !== '' && { provider }),
    ...((typeof q === 'string' || typeof q === 'number') && q !== '' && { q: String(q) }),
    ...(sort && sort !== 'created' && { sort }),
  }
}

export type Titled = { sandbox: Sandbox; title: string | undefined }

export function isAlive({ status }: Sandbox): boolean {
  return status === 'creating' || status === 'running'
}

/** How many there are of each, whatever the chosen state: what a chip would show. */
export function countsOf(rows: readonly Titled[], search: ListSearch): Record<StateFilter, number> {
  const counts = Object.fromEntries(STATE_FILTERS.map((state) => [state, 0])) as Record<StateFilter, number>
  for (const row of rows.filter((one) => isFound(one, search))) {
    counts.all += 1
    counts[row.sandbox.status] += 1
    if (isAlive(row.sandbox)) counts.live += 1
  }
  return counts
}

export function shownOf(rows: readonly Titled[], search: ListSearch): Titled[] {
  const { state, sort = 'created' } = search
  const kept = rows.filter(
    (row) => isFound(row, search) && (!state || (state === 'live' ? isAlive(row.sandbox) : row.sandbox.status === state)),
  )
  const isReversed = sort.startsWith('-')
  const compare = ORDERS[(isReversed ? sort.slice(1) : sort) as Sort]
  return kept.toSorted((a, b) => compare(a, b) * (isReversed ? -1 : 1) || newest(a, b))
}

/** By id, branch, title of the task and provider. */
function isFound({ sandbox, title }: Titled, { provider, q }: ListSearch): boolean {
  if (provider && sandbox.provider !== provider) return false
  const text = [sandbox.id, sandbox.branch_name, sandbox.task_id, title].join(' ').toLowerCase()
  return (q ?? '').toLowerCase().split(/\s+/).every((word) => text.includes(word))
}

const newest = (a: Titled, b: Titled) => b.sandbox.created_at.localeCompare(a.sandbox.created_at)

/** What is most likely looked for comes first. */
const ORDERS: Record<Sort, (a: Titled, b: Titled) => number> = {
  created: newest,
  heartbeat: (a, b) => (b.sandbox.last_heartbeat_at ?? '').localeCompare(a.sandbox.last_heartbeat_at ?? ''),
  cost: (a, b) => (b.sandbox.cost_usd ?? 0) - (a.sandbox.cost_usd ?? 0),
  task: (a, b) => (a.title ?? '\uffff').localeCompare(b.title ?? '\uffff'),
  state: (a, b) => SANDBOX_STATUSES.indexOf(a.sandbox.status) - SANDBOX_STATUSES.indexOf(b.sandbox.status),
}
