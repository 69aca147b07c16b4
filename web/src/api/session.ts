// Who is signed in, as the server said. The proof of it is a cookie that no script can read; nothing is kept here but
// a name and a role.

import { useSyncExternalStore } from 'react'
import type { Session } from './types'

const listeners = new Set<() => void>()
let current: Session | null = null

function set(next: Session | null) {
  current = next
  for (const listener of listeners) listener()
}

export const session = {
  get: () => current,
  begin: (next: Session) => set(next),
  end: () => {
    if (current) set(null)
  },
  subscribe(listener: () => void) {
    listeners.add(listener)
    return () => {
      listeners.delete(listener)
    }
  },
}

export function useSession(): Session | null {
  return useSyncExternalStore(session.subscribe, session.get)
}
