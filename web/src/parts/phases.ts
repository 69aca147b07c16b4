// The phases of a spec by the names that people read.

import type { SpecPhase } from '../api/types'

export const TITLES: Record<SpecPhase, string> = {
  explore: 'Explore',
  prd: 'PRD',
  requirements: 'Requirements',
  design: 'Design',
  tasks: 'Tasks',
  sync: 'Sync',
}

export const PHASES = Object.keys(TITLES) as SpecPhase[]

/** `Requirements and Design`; none is told as such. */
export function phaseNames(phases: readonly SpecPhase[]): string {
  return phases.length === 0 ? 'none' : listed(PHASES.filter((phase) => phases.includes(phase)).map((phase) => TITLES[phase]))
}

export function listed(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`
}
