// Whether there is room for two panes beside each other.

import { useSyncExternalStore } from 'react'

const WIDE = '(min-width: 1100px)'

export function useIsWide(): boolean {
  return useSyncExternalStore(
    (listener) => {
      const query = matchMedia(WIDE)
      query.addEventListener('change', listener)
      return () => query.removeEventListener('change', listener)
    },
    () => matchMedia(WIDE).matches,
  )
}
