import { useEffect, type ReactNode } from 'react'

/** The frame of a page: its title, in the tab too, and what scrolls below it. */
export function Page({ title, aside, children }: { title: string; aside?: ReactNode; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Omoi`
  }, [title])
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <div className="flex min-h-11 shrink-0 flex-wrap items-center gap-x-4 gap-y-1 border-b border-line px-4 py-1">
        <h1 className="text-lg font-semibold">{title}</h1>
        {aside}
      </div>
      <div className="min-h-0 flex-1 overflow-auto">{children}</div>
    </div>
  )
}
