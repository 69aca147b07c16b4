// Whether there is room for two panes beside each other.

import { useCallback, useState, useSyncExternalStore } from 'react'

const WIDE = '(min-width: 1100px)'

export function useIsWide(): boolean {
  const [query] = useState(() => matchMedia(WIDE))
  const subscribe = useCallback(
    (listener: () => void) => {
      query.addEventListener('change', listener)
      return () => query.removeEventListener('change', listener)
    },
    [query],
  )
  return useSyncExternalStore(subscribe, () => query.matches)
}
