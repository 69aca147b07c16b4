// Keeps everything shown of tasks as the server has it, by what the stream says.

import { useQueryClient } from '@tanstack/react-query'
import { useRef } from 'react'
import type { LiveEvent } from '../../api/types'
import { useAtMostEverySecond, useLive } from '../../app/live'
import { TASK_CHANGES } from '../../live/changes'
import { array } from '../../live/fields'
import { TELLING } from '../../live/doing'
import { bringUpToDate } from './place'

const TICKETS = ['TICKET_CREATED', 'TICKET_UPDATED']
const CHANGES = { eventTypes: [...TASK_CHANGES, ...TICKETS, ...TELLING.map((type) => `SANDBOX_${type}`)] }

/** `hear` is told what sandboxes do, `onChange` that some task is different, at most once a second. */
export function useTaskStream(hear: (event: LiveEvent) => boolean, onChange: () => void = () => undefined) {
  const queries = useQueryClient()
  const changed = useRef(new Set<string>())
  const settle = useAtMostEverySecond(() => {
    const ids = [...changed.current]
    changed.current.clear()
    void bringUpToDate(queries, ids)
    onChange()
    // One that begins or ends may be what another waits for.
    void queries.invalidateQueries({
      queryKey: ['task'],
      predicate: ({ queryKey, state }) =>
        queryKey.length === 2 && !ids.includes(String(queryKey[1])) && isPending(state.data),
    })
  })
  useLive(CHANGES, (event) => {
    if (event === 'connected') {
      for (const key of ['tasks', 'task', 'tickets', 'doing']) void queries.invalidateQueries({ queryKey: [key] })
      onChange()
      return
    }
    if (hear(event)) return
    if (TICKETS.includes(event.event_type)) void queries.invalidateQueries({ queryKey: ['tickets'] })
    else if (event.entity_type === 'task') {
      for (const id of [event.entity_id, ...array(event.payload, 'unblocked_task_ids')]) changed.current.add(String(id))
      settle()
    }
  })
}

function isPending(data: unknown): boolean {
  return typeof data === 'object' && data !== null && 'status' in data && data.status === 'pending'
}
