import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useId, useRef, type DragEvent, type ReactNode } from 'react'

const CARD_PX = 96
const GAP_PX = 6
/** So many cards before the end, more are asked for. */
const AHEAD = 10

type FrameProps = {
  /** What the column holds, for those who look for it. */
  name: string
  title: ReactNode
  count: string
  /** Takes the card that is being dragged; none where that has no place here. */
  onTake: (() => void) | undefined
  aside?: ReactNode
  children: ReactNode
}

/** One column of a board: what it holds, how much, and what may be put into it. */
export function Frame({ name, title, count, onTake, aside, children }: FrameProps) {
  const titleId = useId()
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- takes what is dropped; menu and keys do the same
    <section
      data-column={name}
      aria-labelledby={titleId}
      {...taking(onTake)}
      className={`flex min-h-0 w-[85vw] max-w-80 shrink-0 snap-start flex-col rounded-lg border bg-sunken md:w-auto md:min-w-56 md:max-w-none md:flex-1 ${onTake ? 'border-accent' : 'border-line'}`}
    >
      <div className="flex h-9 shrink-0 items-center gap-2 px-2">
        <h2 id={titleId}>{title}</h2>
        <span className="text-xs text-muted tabular-nums">{count}</span>
        <span className="flex-1" />
        {aside}
      </div>
      {children}
    </section>
  )
}

type CardsProps<T> = {
  label: string
  cards: readonly T[]
  /** What a card does with the one that is dragged onto it; none where nothing. */
  ontoOf?: (card: T) => (() => void) | undefined
  onNearEnd?: (() => void) | undefined
  render: (card: T) => ReactNode
  children?: ReactNode
}

/** The cards of a column. They scroll alone, and only those in sight are in the page. */
export function Cards<T extends { id: string }>({ label, cards, ontoOf, onNearEnd, render, children }: CardsProps<T>) {
  const box = useRef<HTMLDivElement>(null)
  // oxlint-disable-next-line react/incompatible-library -- nothing here is memoised by a compiler
  const rows = useVirtualizer({
    count: cards.length,
    getScrollElement: () => box.current,
    estimateSize: () => CARD_PX,
    getItemKey: (index) => cards[index]?.id ?? index,
    gap: GAP_PX,
    overscan: 4,
  })
  const shown = rows.getVirtualItems()
  const isNearEnd = (shown.at(-1)?.index ?? 0) >= cards.length - AHEAD
  useEffect(() => {
    if (isNearEnd && cards.length > 0) onNearEnd?.()
  })
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls can be reached by keys
    <div ref={box} tabIndex={cards.length > 0 ? -1 : undefined} className="min-h-0 flex-1 overflow-y-auto px-1.5 pb-2">
      <ul aria-label={label} className="relative" style={{ height: rows.getTotalSize() }}>
        {shown.map(({ index, key, start }) => {
          const card = cards[index]
          if (!card) return null
          return (
            // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- takes what is dropped; menu and keys do the same
            <li
              key={key}
              ref={rows.measureElement}
              data-index={index}
              {...taking(ontoOf?.(card))}
              style={{ transform: `translateY(${start}px)` }}
              className="absolute inset-x-0 top-0"
            >
              {render(card)}
            </li>
          )
        })}
      </ul>
      {children}
    </div>
  )
}

/** What is dropped on a card is not dropped on its column as well. */
function taking(onTake: (() => void) | undefined) {
  return {
    onDragOver: (event: DragEvent) => onTake && event.preventDefault(),
    onDrop: (event: DragEvent) => {
      if (!onTake) return
      event.preventDefault()
      event.stopPropagation()
      onTake()
    },
  }
}

/** What a card that can be put elsewhere tells while it is dragged. */
export function dragging<T extends { id: string }>(card: T, onDrag: ((card: T | undefined) => void) | undefined) {
  return (
    onDrag && {
      draggable: true,
      onDragStart: (event: DragEvent) => {
        event.dataTransfer.setData('text/plain', card.id)
        event.dataTransfer.effectAllowed = 'move'
        onDrag(card)
      },
      onDragEnd: () => onDrag(undefined),
    }
  )
}
