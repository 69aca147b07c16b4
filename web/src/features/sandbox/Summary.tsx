import { useEffect, useRef, useState } from 'react'
import type { LogEvent } from '../../live/log'

const SPEAK_MS = 10_000

/** Tells a screen reader how much is new, every ten seconds at most; the list itself announces nothing. */
export function Summary({ events }: { events: readonly LogEvent[] }) {
  const last = events.at(-1)
  const latest = useRef(last)
  const spoken = useRef(last?.seq ?? 0)
  const [words, setWords] = useState('')

  useEffect(() => {
    latest.current = last
  }, [last])

  useEffect(() => {
    const timer = setInterval(() => {
      const now = latest.current
      if (!now || now.seq === spoken.current) return
      const count = now.seq - spoken.current
      setWords(`${count} new ${count === 1 ? 'event' : 'events'}, last ${now.type}`)
      spoken.current = now.seq
    }, SPEAK_MS)
    return () => clearInterval(timer)
  }, [])

  return (
    <p role="status" className="sr-only">
      {words}
    </p>
  )
}
