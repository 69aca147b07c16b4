// What became of the checks that stand between a sandbox's work and the completion of its task. No React inside.

import type { Evidence } from '../../api/types'

export type Checked = 'passed' | 'failed' | 'open'

/** By the first sandbox after it that ran checks to their end; one that was lost on the way says nothing. */
export function checkedAfter(attempts: Evidence['attempts'], id: string): Checked {
  const later = attempts.slice(attempts.findIndex((attempt) => attempt.sandbox_id === id) + 1)
  for (const { stage, status, end_reason } of later) {
    if (stage !== 'check') return 'open'
    if (status === 'completed') return 'passed'
    if (status === 'failed' && end_reason === 'checks_failed') return 'failed'
  }
  return 'open'
}
