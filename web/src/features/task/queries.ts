// What the task pages ask the server for.

import { infiniteQueryOptions } from '@tanstack/react-query'
import { api, ask } from '../../api/client'
import type { Task, TaskStatus } from '../../api/types'

export type TaskPage = { items: Task[]; next?: string | null }

export function taskList(status: TaskStatus | undefined) {
  return infiniteQueryOptions({
    queryKey: ['tasks', { status }],
    queryFn: ({ pageParam, signal }): Promise<TaskPage> => {
      const query = { ...(status && { status }), ...(pageParam && { cursor: pageParam }) }
      return ask(api.GET('/api/v1/tasks', { params: { query }, signal }))
    },
    initialPageParam: '',
    getNextPageParam: (page) => page.next ?? undefined,
  })
}
