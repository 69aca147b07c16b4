// The columns of the board: what each holds, and in which order.

import { useInfiniteQuery } from '@tanstack/react-query'
import { useEffect } from 'react'
import type { Task, TaskStatus } from '../../../api/types'
import { PRIORITIES } from '../moves'
import { taskPages } from '../queries'
import { since } from '../note'
import { isSearching, matches, type BoardSearch } from './search'

export const COLUMNS: readonly TaskStatus[] = ['pending', 'assigned', 'running', 'completed', 'failed', 'cancelled']

const PAGE = 50
/** What waits is ordered by urgency, which the server's pages are not; so all of it is wanted at once, as is what is searched. */
const WHOLE = 500
const SEARCHED_PAGES_MAX = 4

/** What waits in the order in which it is taken; what is under way, longest first; what is over, newest first. */
export function ordered(status: TaskStatus, tasks: readonly Task[]): Task[] {
  const once = [...new Map(tasks.map((task) => [task.id, task])).values()]
  switch (status) {
    case 'pending':
      return once.toSorted((a, b) => rank(a) - rank(b) || b.score - a.score || a.created_at.localeCompare(b.created_at))
    case 'assigned':
    case 'running':
      return once.toSorted((a, b) => since(a).localeCompare(since(b)))
    case 'completed':
    case 'failed':
    case 'cancelled':
      return once.toSorted((a, b) => since(b).localeCompare(since(a)))
    default:
      return status satisfies never
  }
}

function rank(task: Task): number {
  return PRIORITIES.indexOf(task.priority)
}

export type Column = {
  status: TaskStatus
  /** Those that fit what is searched, in order. */
  tasks: Task[]
  /** All that were loaded. */
  loaded: Task[]
  isPending: boolean
  error: Error | null
  retry: () => void
  hasMore: boolean
  /** So many were searched, and there are more. */
  searched: number | undefined
  isLoadingMore: boolean
  more: () => void
}

export function useColumn(status: TaskStatus, search: BoardSearch, isShown: boolean): Column {
  const isSearch = isSearching(search)
  const filter = {
    status,
    ...(search.project && { project: search.project }),
    ...(search.ticket && { ticket: search.ticket }),
  }
  const query = useInfiniteQuery({
    ...taskPages(filter, isSearch || status === 'pending' ? WHOLE : PAGE),
    enabled: isShown,
  })
  const { hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage } = query
  const pages = query.data?.pages.length ?? 0
  const isSearchedOut = isSearch && hasNextPage && pages >= SEARCHED_PAGES_MAX
  const isOnward = isSearch && isShown && hasNextPage && !isFetchingNextPage && !isFetchNextPageError && !isSearchedOut
  // One page after the other: each that comes asks for the next.
  const behind = isOnward ? pages : 0
  useEffect(() => {
    if (behind > 0) void fetchNextPage()
  }, [behind, fetchNextPage])

  const loaded = ordered(status, query.data?.pages.flatMap(({ items }) => items) ?? [])
  return {
    status,
    tasks: loaded.filter((task) => matches(task, search)),
    loaded,
    isPending: query.isPending,
    error: query.error,
    retry: () => void query.refetch(),
    hasMore: hasNextPage,
    searched: isSearchedOut ? loaded.length : undefined,
    isLoadingMore: isFetchingNextPage,
    more: () => {
      if (hasNextPage && !isFetchingNextPage && !isFetchNextPageError && !isSearchedOut) void fetchNextPage()
    },
  }
}
