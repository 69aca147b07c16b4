// How pages use the live stream: one per tab, for the page that is open, its state shown in the shell.

import { useQueryClient, type QueryKey } from '@tanstack/react-query'
import { useEffect, useEffectEvent, useState, useSyncExternalStore } from 'react'
import { openStream, type StreamFilter } from '../api/client'
import type { LiveEvent } from '../api/types'
import { NEED_CHANGES } from '../live/changes'
import { follow, type StreamState } from '../live/stream'

const listeners = new Set<() => void>()
let connection: StreamState | undefined

export function setConnection(state: StreamState | undefined) {
  connection = state
  for (const listener of listeners) listener()
}

/** None on a page that shows nothing live. */
export function useConnection(): StreamState | undefined {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => connection,
  )
}

/**
 * Follows part of the stream while the page is open. `onChange` is called for events, and once per connect because
 * what happened before it is not known. The filter must be a constant.
 */
export function useLive(filter: StreamFilter, onChange: (event: LiveEvent | 'connected') => void) {
  const change = useEffectEvent(onChange)
  useEffect(() => {
    const { eventTypes } = filter
    const stop = follow({
      open: (since, signal) => openStream(widened(filter), since, signal),
      onEvent: (event) => {
        overhear(event)
        if (!eventTypes || eventTypes.includes(event.event_type)) change(event)
      },
      onOpen: () => {
        overhear('connected')
        change('connected')
      },
      onState: setConnection,
    })
    return () => {
      stop()
      setConnection(undefined)
    }
  }, [filter])
}

/** What the shell shows beside every page changes with these; it listens in on the page's stream, for a browser has few connections. */
const NEEDS: ReadonlySet<string> = new Set(NEED_CHANGES)
const shells = new Set<(event: LiveEvent | 'connected') => void>()

/** Called by whoever follows a stream, for all that comes. */
export function overhear(event: LiveEvent | 'connected') {
  if (event !== 'connected' && !NEEDS.has(event.event_type)) return
  for (const shell of shells) shell(event)
}

/** Calls when a stream tells of a change of what waits for a person. */
export function useNeedsChange(onChange: (event: LiveEvent | 'connected') => void) {
  const change = useEffectEvent(onChange)
  useEffect(() => {
    const shell = (event: LiveEvent | 'connected') => change(event)
    shells.add(shell)
    return () => {
      shells.delete(shell)
    }
  }, [])
}

/** A page that names kinds of events hears of these too. One that follows some entities alone does not: the server has no such filter. */
function widened(filter: StreamFilter): StreamFilter {
  if (!filter.eventTypes || filter.entityIds || filter.entityTypes) return filter
  return { eventTypes: [...new Set([...filter.eventTypes, ...NEED_CHANGES])] }
}

/**
 * Asks for what has these keys again, at most once a second, when part of the stream tells of a change. The filter must
 * be a constant.
 */
export function useFresh(filter: StreamFilter, keys: readonly QueryKey[], concerns: (event: LiveEvent) => boolean = () => true) {
  const refetch = useRefetch(...keys)
  useLive(filter, (event) => {
    if (event === 'connected' || concerns(event)) refetch()
  })
}

/** Asks for what has these keys again, at most once a second however often it is called. */
export function useRefetch(...keys: readonly QueryKey[]): () => void {
  const queries = useQueryClient()
  return useAtMostEverySecond(() => {
    for (const queryKey of keys) void queries.invalidateQueries({ queryKey })
  })
}

const REFETCH_MS = 1_000

/** Calls at once, then at most once a second however often it is asked, the last time after the last asking. */
export function useAtMostEverySecond(call: () => void): () => void {
  const latest = useEffectEvent(call)
  const [throttle] = useState(() => new Throttle())
  useEffect(() => {
    throttle.start(() => latest())
    return () => throttle.stop()
  }, [throttle])
  return throttle.ask
}

class Throttle {
  #call: () => void = () => undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #isAsked = false

  start(call: () => void) {
    this.#call = call
  }

  ask = () => {
    if (this.#timer !== undefined) {
      this.#isAsked = true
      return
    }
    this.#call()
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#isAsked) {
        this.#isAsked = false
        this.ask()
      }
    }, REFETCH_MS)
  }

  stop() {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#isAsked = false
  }
}
