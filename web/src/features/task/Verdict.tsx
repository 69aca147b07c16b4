import { Check, CircleHelp, X } from 'lucide-react'
import type { Verification } from '../../api/types'

/** Whether it is proven, in words. */
export function Verdict({ of }: { of: Verification }) {
  switch (of) {
    case 'verified':
      return (
        <span className="inline-flex items-center gap-1 text-ok">
          <Check size={14} aria-hidden /> verified: its checks passed on this commit
        </span>
      )
    case 'disputed':
      return (
        <span className="inline-flex items-center gap-1 text-bad">
          <X size={14} aria-hidden /> disputed: somebody or something says otherwise
        </span>
      )
    case 'unverified':
      return (
        <span className="inline-flex items-center gap-1 text-warn">
          <CircleHelp size={14} aria-hidden /> unverified: the agent says so, and no check has proven it
        </span>
      )
    default:
      return of satisfies never
  }
}
