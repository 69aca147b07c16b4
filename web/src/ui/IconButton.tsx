import type { ReactNode } from 'react'

type Props = { label: string; isOff?: boolean; onClick: () => void; children: ReactNode }

/** A small button that shows an icon and says its name to those who cannot see it. */
export function IconButton({ label, isOff = false, onClick, children }: Props) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      disabled={isOff}
      onClick={onClick}
      className="inline-flex size-6 cursor-pointer items-center justify-center rounded hover:bg-raised hover:text-fg disabled:cursor-default disabled:opacity-50"
    >
      {children}
    </button>
  )
}
