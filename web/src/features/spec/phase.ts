// The phases of a spec in words: what they are called, how far each is, and what a decision about one leads to.

import type { PhaseAttempt, SpecDetail, SpecPhase } from '../../api/types'
import { listed, TITLES } from '../../parts/phases'

export { TITLES }

export type Step = { phase: SpecPhase; isGate: boolean; last: PhaseAttempt | undefined }

/** All phases of its flow in their order, begun or not. */
export function stepsOf(spec: SpecDetail): Step[] {
  return spec.flow_phases.map((phase) => ({
    phase,
    isGate: spec.gates.includes(phase),
    last: spec.phases.find((attempt) => attempt.phase === phase),
  }))
}

/** The phase to show where none is asked for: the one that the spec is at. */
export function shownPhase(spec: SpecDetail, asked: SpecPhase | undefined): SpecPhase {
  const has = (phase: SpecPhase | undefined) => phase !== undefined && spec.flow_phases.includes(phase)
  if (asked && has(asked)) return asked
  return has(spec.current_phase) ? spec.current_phase : (spec.flow_phases[0] ?? spec.current_phase)
}

/** The phases behind one that were begun: they are redone when it changes. */
export function laterBegun(spec: SpecDetail, phase: SpecPhase): SpecPhase[] {
  const at = spec.flow_phases.indexOf(phase)
  const begun = new Set(spec.phases.map((attempt) => attempt.phase))
  return spec.flow_phases.slice(at + 1).filter((later) => begun.has(later))
}

export function nextPhase(spec: SpecDetail, phase: SpecPhase): SpecPhase | undefined {
  return spec.flow_phases[spec.flow_phases.indexOf(phase) + 1]
}

/** What happens once a phase is approved. */
export function afterApproval(spec: SpecDetail, phase: SpecPhase): { action: string; words: string } {
  const next = nextPhase(spec, phase)
  if (!next) {
    return {
      action: 'Approve and start the tasks',
      words: 'No phase follows: its tickets and tasks are made, and agents begin to work on those that wait for nothing.',
    }
  }
  const waits = spec.gates.includes(next) ? ', which waits for you as well when it is done' : ''
  return {
    action: `Approve and go on to ${TITLES[next]}`,
    words: `A sandbox starts on ${TITLES[next]}${waits}.`,
  }
}

/** What becomes of later phases when one changes. */
export function staleWords(spec: SpecDetail, phase: SpecPhase): string {
  const later = laterBegun(spec, phase).map((one) => TITLES[one])
  if (later.length === 0) return 'No later phase was begun, so none becomes stale.'
  const are = later.length === 1 ? 'becomes stale and is' : 'become stale and are'
  return `${listed(later)} ${are} redone.${spec.items.length > 0 ? ' Tasks that were made stay as they are.' : ''}`
}

export function score(value: number): string {
  return value.toFixed(2)
}

/** What happens once an output is saved by hand. */
export function afterEdit(spec: SpecDetail, phase: SpecPhase): string {
  if (spec.gates.includes(phase)) return 'What you save is judged at once, and then waits to be approved.'
  const next = nextPhase(spec, phase)
  return `What you save is judged at once; ${next ? `${TITLES[next]} follows` : 'its tasks follow'} if it is good enough.`
}
