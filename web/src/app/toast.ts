// What was just done, told once, and how to take it back. One at a time: the newest is what a person may want undone.

import { useSyncExternalStore } from 'react'

export type Toast = {
  words: string
  /** Takes it back. */
  undo: () => Promise<unknown>
}

const listeners = new Set<() => void>()
let shown: (Toast & { id: number }) | undefined
let count = 0

export function tell(toast: Toast | undefined) {
  shown = toast && { ...toast, id: ++count }
  for (const listener of listeners) listener()
}

/** Each has an id of its own, also where it says what the one before it said. */
export function useToast(): (Toast & { id: number }) | undefined {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => shown,
  )
}
