import type { ReactNode } from 'react'

/** Text that scrolls by itself when it is long, by keyboard too. */
export function Scroll({ label, className = '', children }: { label: string; className?: string; children: ReactNode }) {
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard
    <div role="region" aria-label={label} tabIndex={0} className={`overflow-auto ${className}`}>
      {children}
    </div>
  )
}
