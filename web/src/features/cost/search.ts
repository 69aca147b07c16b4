// What the page of costs keeps in its address.

export const RANGES = ['24h', '7d', '30d', 'all'] as const
export type Range = (typeof RANGES)[number]
export const GROUPS = ['project', 'task', 'model', 'day'] as const
export type Group = (typeof GROUPS)[number]

export type CostSearch = { range?: Range | undefined; group?: Group | undefined; project?: string | undefined }

export function asCostSearch(search: Record<string, unknown>): CostSearch {
  const range = RANGES.find((one) => one === search.range)
  const group = GROUPS.find((one) => one === search.group)
  return {
    ...(range && { range }),
    ...(group && { group }),
    ...(typeof search.project === 'string' && search.project !== '' && { project: search.project }),
  }
}

const HOURS: Record<Range, number | undefined> = { '24h': 24, '7d': 7 * 24, '30d': 30 * 24, all: undefined }

/** To the minute, so that what was asked for a moment ago is not asked for again. */
export function sinceOf(range: Range, now: Date): string | undefined {
  const hours = HOURS[range]
  if (hours === undefined) return undefined
  const minute = 60_000
  return new Date(Math.floor((now.getTime() - hours * 60 * minute) / minute) * minute).toISOString()
}
