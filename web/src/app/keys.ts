// Single keys and two-key sequences for the whole of the pages. They are off while somebody types.

import { useEffect, useEffectEvent } from 'react'

/** How long the second key of a sequence may take. */
const SEQUENCE_MS = 1_500

/** The first key of a sequence: for all tables alike, or the second key would be taken alone by another one. */
const sequence: { first: string; next: string; at: KeyboardEvent | undefined; timer: ReturnType<typeof setTimeout> | undefined } = {
  first: '',
  next: '',
  at: undefined,
  timer: undefined,
}

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
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || isTyping(event.target)) return
      const key = event.altKey ? `alt ${event.key.toLowerCase()}` : event.key
      const first = firstOf(event)
      if (act(first ? `${first} ${key}` : key)) event.preventDefault()
      else if (begins(key)) begin(key)
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])
}

/** The key that came before this one as the first of a sequence, whichever table asks. */
function firstOf(event: KeyboardEvent): string {
  if (sequence.at !== event) {
    clearTimeout(sequence.timer)
    Object.assign(sequence, { first: sequence.next, next: '', at: event })
  }
  return sequence.first
}

function begin(key: string) {
  sequence.next = key
  clearTimeout(sequence.timer)
  sequence.timer = setTimeout(() => {
    sequence.next = ''
  }, SEQUENCE_MS)
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  // An open dialog has keys of its own.
  return target.isContentEditable || target.closest('input, textarea, select, dialog[open]') !== null
}
