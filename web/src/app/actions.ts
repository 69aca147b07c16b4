// What can be done on the page that is open, for the palette to offer.

import { useEffect, useEffectEvent, useSyncExternalStore } from 'react'

export type PageAction = { label: string; keys?: string; run: () => void }

type Source = { actions: readonly PageAction[] }

const sources = new Set<Source>()
const listeners = new Set<() => void>()
let all: readonly PageAction[] = []

function tell() {
  all = [...sources].flatMap((source) => source.actions)
  for (const listener of listeners) listener()
}

/** Offers these while the component is there. Their labels say which they are; what they do may change with each rendering. */
export function usePageActions(actions: readonly PageAction[]) {
  const run = useEffectEvent((label: string) => actions.find((action) => action.label === label)?.run())
  const named = JSON.stringify(actions.map(({ label, keys }) => [label, keys]))
  useEffect(() => {
    const told = JSON.parse(named) as [string, string | null][]
    const source: Source = {
      actions: told.map(([label, keys]) => ({ label, ...(keys && { keys }), run: () => run(label) })),
    }
    sources.add(source)
    tell()
    return () => {
      sources.delete(source)
      tell()
    }
  }, [named])
}

export function useOfferedActions(): readonly PageAction[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => {
        listeners.delete(listener)
      }
    },
    () => all,
  )
}
