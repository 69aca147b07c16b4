// What comparing asks the server for beyond what the page of a sandbox does.

import { queryOptions } from '@tanstack/react-query'
import { ofStored, type LogEvent } from '../../../live/log'
import { eventHistory } from '../queries'

const PAGE = 500
/** What goes beyond is not counted, and the page says so. */
export const EVENTS_MAX = 20_000

export type Events = { events: readonly LogEvent[]; isWhole: boolean }

/** All events of a sandbox, oldest first. Asked again, only those that are new are fetched. */
export function allEvents(id: string) {
  const queryKey = ['sandbox', id, 'all-events']
  return queryOptions({
    queryKey,
    queryFn: ({ client }) => {
      const before = client.getQueryData<Events>(queryKey)
      return before ? later(id, before) : newest(id)
    },
  })
}

async function newest(id: string): Promise<Events> {
  const events: LogEvent[] = []
  for (;;) {
    const last = events.at(-1)
    const page = await eventHistory(id, { limit: PAGE, ...(last && { before: last.seq }) })
    events.push(...page.map(ofStored))
    // A page of large events is short. Numbers are dense, so the first event is known by its own.
    const isWhole = (page.at(-1)?.seq ?? 1) <= 1
    if (isWhole || events.length >= EVENTS_MAX) return { events: events.toReversed(), isWhole }
  }
}

async function later(id: string, { events, isWhole }: Events): Promise<Events> {
  const all = [...events]
  for (;;) {
    const page = await eventHistory(id, { limit: PAGE, after: all.at(-1)?.seq ?? 0 })
    const fresh = page.map(ofStored).filter(({ seq }) => seq > (events.at(-1)?.seq ?? 0))
    all.push(...fresh.toSorted((x, y) => x.seq - y.seq))
    if (page.length === 0 || all.length >= EVENTS_MAX) break
  }
  const isCut = all.length > EVENTS_MAX
  return { events: isCut ? all.slice(-EVENTS_MAX) : all, isWhole: isWhole && !isCut }
}
