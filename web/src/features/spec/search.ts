// What the spec pages keep in their addresses.

import type { SpecPhase, SpecStatus } from '../../api/types'
import { PHASES } from '../../parts/phases'

/** A record, so that a word which is new in the document fails the type check until it is listed. */
const STATUSES: Record<SpecStatus, true> = { draft: true, executing: true, waiting: true, completed: true, failed: true }

export const SPEC_STATUSES = Object.keys(STATUSES) as SpecStatus[]

export type SpecListSearch = { project?: string | undefined; status?: SpecStatus | undefined; archived?: boolean | undefined }

export function asSpecListSearch({ project, status, archived }: Record<string, unknown>): SpecListSearch {
  const known = SPEC_STATUSES.find((word) => word === status)
  return {
    ...(typeof project === 'string' && project && { project }),
    ...(known && { status: known }),
    ...(archived === true && { archived }),
  }
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
  const known = PHASES.find((word) => word === phase)
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
