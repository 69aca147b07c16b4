// Choices that this browser remembers, such as how diffs are shown. Where storage is forbidden, they last as long as
// the page.

import { useSyncExternalStore } from 'react'

const listeners = new Set<() => void>()
const known = new Map<string, string | null>()

export function recall(name: string): string | null {
  const held = known.get(name)
  if (held !== undefined) return held
  let stored: string | null = null
  try {
    stored = localStorage.getItem(`omoi.${name}`)
  } catch {
    // Nothing is remembered then.
  }
  known.set(name, stored)
  return stored
}

/** With null the choice is forgotten. */
export function remember(name: string, value: string | null) {
  known.set(name, value)
  try {
    if (value === null) localStorage.removeItem(`omoi.${name}`)
    else localStorage.setItem(`omoi.${name}`, value)
  } catch {
    // As above.
  }
  for (const listener of listeners) listener()
}

export function subscribe(listener: () => void) {
  listeners.add(listener)
  return () => {
    listeners.delete(listener)
  }
}

/** One of `values`, the first of them until another is chosen. */
export function useRemembered<T extends string>(name: string, values: readonly [T, ...T[]]): [T, (value: T) => void] {
  const stored = useSyncExternalStore(subscribe, () => recall(name))
  return [values.find((value) => value === stored) ?? values[0], (value) => remember(name, value)]
}
