import { useId, type ReactNode } from 'react'

type Props = { title: string; aside?: ReactNode; children: ReactNode; className?: string }

/** A part of a page under its own heading. */
export function Section({ title, aside, children, className = '' }: Props) {
  const id = useId()
  return (
    <section aria-labelledby={id} className={`min-w-0 overflow-hidden rounded-lg border border-line bg-surface ${className}`}>
      <div className="flex min-h-9 flex-wrap items-center gap-x-3 border-b border-line px-3 py-1">
        <h2 id={id} className="font-semibold">
          {title}
        </h2>
        {aside}
      </div>
      {children}
    </section>
  )
}

export function Quiet({ children }: { children: ReactNode }) {
  return <p className="px-3 py-2 text-muted">{children}</p>
}
