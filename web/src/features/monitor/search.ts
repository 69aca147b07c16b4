// What the monitor keeps in its address.

import type { MetricRange } from '../../api/types'

export const TABS = ['overview', 'findings', 'radar', 'anomalies', 'diagnoses', 'policies', 'actions'] as const
export type Tab = (typeof TABS)[number]

export const RANGES = ['1h', '24h', '7d'] as const satisfies readonly MetricRange[]

export type MonitorSearch = {
  tab?: Tab | undefined
  range?: MetricRange | undefined
  project?: string | undefined
  /** Also what is over, acknowledged or dismissed. */
  all?: true | undefined
}

export function asMonitorSearch(search: Record<string, unknown>): MonitorSearch {
  const tab = TABS.find((one) => one === search.tab)
  const range = RANGES.find((one) => one === search.range)
  return {
    ...(tab && { tab }),
    ...(range && { range }),
    ...(typeof search.project === 'string' && search.project !== '' && { project: search.project }),
    ...(search.all === true && { all: true as const }),
  }
}
