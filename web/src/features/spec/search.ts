// What the spec pages keep in their addresses.

import type { SpecPhase, SpecStatus } from '../../api/types'

/** Records, so that a word which is new in the document fails the type check until it is listed. */
const STATUSES: Record<SpecStatus, true> = { draft: true, executing: true, waiting: true, completed: true, failed: true }
const PHASES: Record<SpecPhase, true> = { explore: true, prd: true, requirements: true, design: true, tasks: true, sync: true }

export const SPEC_STATUSES = Object.keys(STATUSES) as SpecStatus[]
export const SPEC_PHASES = Object.keys(PHASES) as SpecPhase[]

export type SpecListSearch = { project?: string | undefined; status?: SpecStatus | undefined }

export function asSpecListSearch({ project, status }: Record<string, unknown>): SpecListSearch {
  const known = SPEC_STATUSES.find((word) => word === status)
  return { ...(typeof project === 'string' && project && { project }), ...(known && { status: known }) }
}

export type SpecSearch = {
  /** The one that the spec is at unless named. */
  phase?: SpecPhase | undefined
  /** The last one unless named. */
  attempt?: number | undefined
  view?: 'document' | 'versions' | undefined
  /** The version whose changes are shown. */
  version?: number | undefined
}

export function asSpecSearch({ phase, attempt, view, version }: Record<string, unknown>): SpecSearch {
  const known = SPEC_PHASES.find((word) => word === phase)
  return {
    ...(known && { phase: known }),
    ...(isCount(attempt) && { attempt }),
    ...((view === 'document' || view === 'versions') && { view }),
    ...(isCount(version) && { version }),
  }
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0
}
