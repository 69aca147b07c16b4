// What the sandbox of a phase does, newest last: what was told before the page was open, and what the stream tells.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { LiveEvent, StoredEvent } from '../../api/types'
import { doing } from '../../live/doing'
import { lastEvents } from './queries'

/** The last of them are of interest. */
const SHOWN = 8
const HEARD_MAX = 40

export type Act = { sandbox: string; seq: number; words: string; at: string }

export function useProgress(sandbox: string | undefined): [Act[], (event: LiveEvent) => boolean] {
  const [heard, setHeard] = useState<Act[]>([])
  const { data } = useQuery({ ...lastEvents(sandbox ?? ''), enabled: sandbox !== undefined })
  const hear = (event: LiveEvent) => {
    const act = heardAct(event)
    if (act) setHeard((old) => [...old, act].slice(-HEARD_MAX))
    return act !== undefined
  }
  return [sandbox === undefined ? [] : actsOf(sandbox, data ?? [], heard), hear]
}

/** Both in the order of the sandbox, each once, the same words in a row once. */
export function actsOf(sandbox: string, told: readonly StoredEvent[], heard: readonly Act[]): Act[] {
  const bySeq = new Map<number, Act>()
  for (const event of told) {
    const act = doing(event.event_type, event.event_data, event.created_at)
    if (act) bySeq.set(event.seq, { sandbox, seq: event.seq, words: act.words, at: act.at })
  }
  for (const act of heard) if (act.sandbox === sandbox) bySeq.set(act.seq, act)
  const acts = [...bySeq.values()].toSorted((a, b) => a.seq - b.seq)
  return acts.filter((act, n) => act.words !== acts[n + 1]?.words).slice(-SHOWN)
}

function heardAct({ entity_type, entity_id, event_type, payload, seq, timestamp }: LiveEvent): Act | undefined {
  if (entity_type !== 'sandbox' || typeof seq !== 'number') return undefined
  const act = doing(event_type.replace(/^SANDBOX_/, ''), payload, timestamp)
  return act && { sandbox: entity_id, seq, words: act.words, at: act.at }
}
