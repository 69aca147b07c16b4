// What stands in for content: while it loads, when there is none, when it could not be had.

import type { ReactNode } from 'react'
import { Button } from './Button'

/** Rows in the final geometry; invisible for a moment, so that a quick answer does not flicker. */
export function Skeleton({ rows, label }: { rows: number; label: string }) {
  return (
    <div role="status" aria-label={label} className="delayed flex flex-col gap-2 p-3">
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} className="h-6 rounded bg-sunken" />
      ))}
    </div>
  )
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="flex flex-col items-start gap-2 p-6 text-muted">
      <p className="untrusted text-base font-medium text-fg">{title}</p>
      {children}
    </div>
  )
}

export function ErrorPanel({ error, onRetry }: { error: Error & { code?: string }; onRetry?: () => void }) {
  return (
    <div role="alert" className="m-3 flex flex-wrap items-center gap-3 rounded-lg bg-bad-soft p-3 text-bad">
      <p className="untrusted min-w-0 flex-1">
        {error.message}
        {error.code && <code className="ml-2 font-mono text-xs">{error.code}</code>}
      </p>
      {onRetry && <Button onClick={onRetry}>Retry</Button>}
    </div>
  )
}

export function Banner({ children }: { children: ReactNode }) {
  return (
    <div role="status" className="border-b border-line bg-warn-soft px-4 py-1.5 text-warn">
      {children}
    </div>
  )
}
