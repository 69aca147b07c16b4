import type { ReactNode } from 'react'

export type Chip<T extends string> = { id: T; label: ReactNode; count?: number | string }

type Props<T extends string> = { label: string; chips: readonly Chip<T>[]; chosen: T; onChoose: (chip: T) => void }

/** A row of filters of which one is on. */
export function Chips<T extends string>({ label, chips, chosen, onChoose }: Props<T>) {
  return (
    <div role="group" aria-label={label} className="flex flex-wrap items-center gap-1">
      {chips.map(({ id, label: words, count }) => (
        <button
          key={id}
          type="button"
          aria-pressed={id === chosen}
          onClick={() => onChoose(id)}
          className="h-6 cursor-pointer rounded-full px-2.5 text-xs whitespace-nowrap text-muted hover:bg-raised hover:text-fg aria-pressed:bg-accent-soft aria-pressed:font-medium aria-pressed:text-accent"
        >
          {words}
          {count !== undefined && <span className="ml-1 tabular-nums"> {count}</span>}
        </button>
      ))}
    </div>
  )
}
