// Single keys and two-key sequences for the whole of the pages. They are off while somebody types.

import { useEffect, useEffectEvent } from 'react'

/** How long the second key of a sequence may take. */
const SEQUENCE_MS = 1_500

export type KeyTable = Readonly<Record<string, () => void>>

/** `table` says what each key or sequence, such as `g x`, does. */
export function useKeys(table: KeyTable) {
  const act = useEffectEvent((keys: string): boolean => {
    const action = table[keys]
    action?.()
    return action !== undefined
  })
  const begins = useEffectEvent((key: string) => Object.keys(table).some((keys) => keys.startsWith(`${key} `)))

  useEffect(() => {
    let first = ''
    let timer: ReturnType<typeof setTimeout> | undefined
    const forget = () => {
      first = ''
      clearTimeout(timer)
    }
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || isTyping(event.target)) return
      const key = event.altKey ? `alt ${event.key.toLowerCase()}` : event.key
      const keys = first ? `${first} ${key}` : key
      forget()
      if (act(keys)) event.preventDefault()
      else if (begins(key)) {
        first = key
        timer = setTimeout(forget, SEQUENCE_MS)
      }
    }
    document.addEventListener('keydown', onKey)
    return () => {
      forget()
      document.removeEventListener('keydown', onKey)
    }
  }, [])
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  // An open dialog has keys of its own.
  return target.isContentEditable || target.closest('input, textarea, select, dialog[open]') !== null
}
