// Who is signed in, in this tab: the operator's token and what the server said of it.

import { useSyncExternalStore } from 'react'
import type { Role } from './types'

export type Session = { token: string; name: string; role: Role }

const KEY = 'omoi.session'
const listeners = new Set<() => void>()
let current: Session | null = read()

function read(): Session | null {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? 'null')
    return typeof stored === 'object' && stored !== null && 'token' in stored ? (stored as Session) : null
  } catch {
    return null
  }
}

function set(next: Session | null) {
  current = next
  try {
    if (next) sessionStorage.setItem(KEY, JSON.stringify(next))
    else sessionStorage.removeItem(KEY)
  } catch {
    // Storage may be forbidden; the session then ends with the page.
  }
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
