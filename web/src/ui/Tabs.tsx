import { useEffect, useId, useRef, type KeyboardEvent, type ReactNode } from 'react'

export type TabItem<T extends string> = { id: T; label: ReactNode }

type Props<T extends string> = { label: string; tabs: readonly TabItem<T>[]; chosen: T; onChoose: (tab: T) => void; children: ReactNode }

/** A row of tabs and the panel of the chosen one. Arrow keys move between them. */
export function Tabs<T extends string>({ label, tabs, chosen, onChoose, children }: Props<T>) {
  const id = useId()
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0
    if (step === 0) return
    const index = tabs.findIndex((tab) => tab.id === chosen)
    const next = tabs[(index + step + tabs.length) % tabs.length]
    if (!next) return
    onChoose(next.id)
    event.currentTarget.querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus()
  }
  // On a narrow screen the chosen one may be out of sight.
  const row = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const tab = row.current?.querySelector<HTMLElement>(`[data-tab="${chosen}"]`)
    if (row.current && tab) row.current.scrollLeft = tab.offsetLeft - row.current.offsetLeft - row.current.clientWidth / 2 + tab.offsetWidth / 2
  }, [chosen])
  return (
    <div className="flex min-h-0 min-w-0 flex-1 flex-col">
      {/* oxlint-disable-next-line jsx-a11y/interactive-supports-focus -- the tabs in it take the focus */}
      <div ref={row} role="tablist" aria-label={label} onKeyDown={onKeyDown} className="flex shrink-0 gap-1 overflow-x-auto border-b border-line px-2">
        {tabs.map((tab) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            id={`${id}-${tab.id}`}
            data-tab={tab.id}
            aria-selected={tab.id === chosen}
            aria-controls={`${id}-panel`}
            tabIndex={tab.id === chosen ? 0 : -1}
            onClick={() => onChoose(tab.id)}
            className="h-9 cursor-pointer border-b-2 border-transparent px-2 text-muted whitespace-nowrap hover:text-fg aria-selected:border-accent aria-selected:font-medium aria-selected:text-fg"
          >
            {tab.label}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${chosen}`} className="flex min-h-0 min-w-0 flex-1 flex-col">
        {children}
      </div>
    </div>
  )
}
