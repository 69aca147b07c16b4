// Putting a spec away and bringing it back; each takes the other back.

import { useMutation, useQueryClient } from '@tanstack/react-query'
import type { Spec } from '../../api/types'
import { tell } from '../../app/toast'
import { oneLine } from '../../ui/plain'
import { specArchive, specBringBack } from './queries'

const TITLE_CHARS = 60

export function useArchive({ id, title, archived }: Pick<Spec, 'id' | 'title' | 'archived'>) {
  const queries = useQueryClient()
  const settle = () =>
    Promise.all([['specs'], ['spec', id]].map((queryKey) => queries.invalidateQueries({ queryKey })))
  const [act, undo] = archived ? [specBringBack, specArchive] : [specArchive, specBringBack]
  return useMutation({
    mutationFn: () => act(id),
    onSuccess: () => {
      const words = `“${oneLine(title, TITLE_CHARS)}” is ${archived ? 'back' : 'archived'}.`
      tell({ words, undo: () => undo(id).finally(settle) })
    },
    onSettled: settle,
  })
}

/** What agents work on is not put away. */
export function mayArchive({ status, archived }: Pick<Spec, 'status' | 'archived'>): boolean {
  return archived || status !== 'executing'
}
