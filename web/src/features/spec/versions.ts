// A version of a spec as text, so that two of them can be compared line by line.

import type { SpecPhase, SpecVersion } from '../../api/types'
import { PHASES, TITLES } from '../../parts/phases'

export type Counted = { phase: SpecPhase; attempt: number; state: string; score: number | undefined }
export type Snapshot = { title: string; description: string; status: string; gates: string[]; phases: Counted[] }

export function snapshotOf({ snapshot }: Pick<SpecVersion, 'snapshot'>): Snapshot {
  const told = snapshot as Record<string, unknown>
  const text = (key: string) => (typeof told[key] === 'string' ? told[key] : '')
  const list = (key: string): unknown[] => (Array.isArray(told[key]) ? (told[key] as unknown[]) : [])
  return {
    title: text('title'),
    description: text('description'),
    status: text('status'),
    gates: list('gates').filter((gate) => typeof gate === 'string'),
    phases: list('phases').flatMap((one) => {
      const { phase, attempt, state, score } = (one ?? {}) as Record<string, unknown>
      const known = PHASES.find((word) => word === phase)
      if (!known || typeof attempt !== 'number') return []
      const of = typeof state === 'string' ? state : ''
      return [{ phase: known, attempt, state: of, score: typeof score === 'number' ? score : undefined }]
    }),
  }
}

/** What came of phases between two versions, such as `Design running`. */
export function moved(before: Snapshot | undefined, after: Snapshot): string[] {
  return after.phases
    .filter(({ phase, attempt, state }) => {
      const old = before?.phases.find((one) => one.phase === phase)
      return old?.attempt !== attempt || old.state !== state
    })
    .map(({ phase, attempt, state }) => `${TITLES[phase]} ${state}${attempt > 1 ? `, attempt ${attempt}` : ''}`)
}

export type Which = { phase: SpecPhase; attempt: number }

/** The attempts whose outputs differ between two versions; no other has to be fetched. */
export function differing(before: Snapshot | undefined, after: Snapshot): Which[] {
  return after.phases.flatMap((now) => {
    const old = before?.phases.find((one) => one.phase === now.phase)
    const attempts = [old ? readable(old) : 0, readable(now)]
    if (attempts[0] === attempts[1]) return []
    return attempts.filter((attempt) => attempt > 0).map((attempt) => ({ phase: now.phase, attempt }))
  })
}

/** An attempt that was still worked on had put nothing out: until it has, the one before it is what there was to read. */
function readable({ attempt, state }: Counted): number {
  return state === 'running' ? attempt - 1 : attempt
}

/** `outputs` has the documents of those attempts that are compared. */
export function versionText(of: Snapshot, outputs: ReadonlyMap<string, string>): string {
  const phases = of.phases.map((counted) => {
    const { phase, attempt, state, score } = counted
    const judged = score === undefined ? '' : `, score ${score.toFixed(2)}`
    const head = `## ${TITLES[phase]}\n\nattempt ${attempt}, ${state}${judged}`
    const document = outputs.get(keyOf({ phase, attempt: readable(counted) }))
    return document ? `${head}\n\n${document}` : head
  })
  const waits = of.gates.length > 0 ? of.gates.join(', ') : 'none'
  return [`# ${of.title}`, of.description, `is ${of.status}; waits for a person at: ${waits}`, ...phases].join('\n\n')
}

export function keyOf({ phase, attempt }: Which): string {
  return `${phase} ${attempt}`
}
