import { defaultRangeExtractor, measureElement, useVirtualizer, type Range, type Virtualizer } from '@tanstack/react-virtual'
import { ArrowDown } from 'lucide-react'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react'
import { useKeys } from '../../app/keys'
import type { Row } from '../../live/rows'
import { Button } from '../../ui/Button'
import { endRange, GUESSED, offsetUnless } from '../../ui/following'
import { CardsContext, type Cards } from './cards/Card'
import { EventCard } from './cards/EventCard'

/** This close to the end counts as being there. */
const NEAR_PX = 60
const OVERSCAN = 6
const INDENT_PX = 20
const UP_KEYS = ['ArrowUp', 'PageUp', 'Home']

type Props = {
  sandboxId: string
  rows: readonly Row[]
  /** The `seq` of the newest event, shown or not. */
  last: number
  hasEarlier: boolean
  isLoadingEarlier: boolean
  selected?: number | undefined
  /** Grows each time the reader asks for the end. */
  ends?: number
  onEarlier: () => void
  onFollow: (isFollowing: boolean) => void
  onSelect: (seq: number) => void
  onFile: (path: string, seq: number) => void
}

type Held = { key: string | number | bigint; index: number; start: number }

type Item = { key: string; depth: number; row: Row | undefined }

/**
 * What happened, newest last; only what is in sight is in the page. Follows the end while the reader is there, and
 * moves nothing while they are elsewhere.
 */
export function EventList(props: Props) {
  const { sandboxId, rows, last, hasEarlier, isLoadingEarlier, selected, ends = 0, onEarlier, onFollow, onSelect, onFile } = props
  const box = useRef<HTMLDivElement>(null)
  const [opened, setOpened] = useState<ReadonlyMap<string, boolean>>(new Map())
  /** While the reader is away from the end: the last event they can have seen there. */
  const [leftAt, setLeftAt] = useState<number | undefined>(selected === undefined ? undefined : last)
  const isFollowing = leftAt === undefined
  const following = useRef(isFollowing)
  const items = useMemo(() => itemsOf(rows, opened, hasEarlier), [rows, opened, hasEarlier])

  // oxlint-disable-next-line react/incompatible-library -- nothing here is memoised by a compiler
  const list: Virtualizer<HTMLDivElement, Element> = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    estimateSize: useCallback((index: number) => guessPx(items[index]?.row), [items]),
    getItemKey: useCallback((index: number) => items[index]?.key ?? index, [items]),
    overscan: OVERSCAN,
    // Whoever leaves the end finds what was there: rows that came with leaving would be measured, and what is read be put
    // back to its place, in the middle of the scrolling that leaves.
    rangeExtractor: useCallback(
      (range: Range) => (isFollowing ? endRange(list, range, GUESSED) : defaultRangeExtractor({ ...range, overscan: list.isScrolling ? OVERSCAN : 0 })),
      [isFollowing],
    ),
    observeElementOffset: useMemo(() => offsetUnless(() => following.current), []),
    // At the end rows stand where they are however high they turn out to be, so nothing waits for their measure: it is
    // told once they are laid out, where asking for it would lay them out twice.
    measureElement: (element, entry, instance) => {
      if (entry || !following.current) return measureElement(element, entry, instance)
      const index = instance.indexFromElement(element)
      return instance.itemSizeCache.get(instance.options.getItemKey(index)) ?? instance.options.estimateSize(index)
    },
    useFlushSync: false,
  })
  // What is read is held below, and there alone.
  list.shouldAdjustScrollPositionOnItemSizeChange = () => false
  const shown = list.getVirtualItems()
  const startPx = shown[0]?.start ?? 0

  const follow = (isWanted: boolean) => {
    if (isWanted === isFollowing) return
    following.current = isWanted
    // Away from the end their places are reckoned.
    if (!isWanted) list.elementsCache.forEach((row) => list.measureElement(row))
    setLeftAt(isWanted ? undefined : last)
    onFollow(isWanted)
  }

  /** The rows in sight, and where they begin. */
  const held = useRef<readonly Held[]>([])
  const topBefore = useRef(0)
  /** Set when the reader opened or closed something: it is being read, so the end does not pull it away. */
  const isReading = useRef(false)
  useLayoutEffect(() => {
    const element = box.current
    if (!element) return
    following.current = isFollowing
    if (isReading.current) {
      isReading.current = false
      follow(isNearEnd(element))
    } else if (isFollowing) {
      element.scrollTop = element.scrollHeight
    } else {
      // What came, went or grew above moves the view by as much, so that what is read stays where it is.
      const moved = movedPx(held.current, items, list.measurementsCache)
      if (moved !== 0) element.scrollTop += moved
    }
    topBefore.current = element.scrollTop
    hold(element)
  })

  const hold = ({ scrollTop }: HTMLElement) => {
    held.current = list
      .getVirtualItems()
      .filter((item) => item.end > scrollTop && items[item.index]?.row)
      .map(({ key, index, start }) => ({ key, index, start }))
  }

  const isLoaded = items.length > 0
  useEffect(() => {
    if (selected === undefined || !isLoaded) return
    const index = items.findLastIndex((item) => item.row !== undefined && item.row.seq <= selected)
    if (index >= 0) list.scrollToIndex(index, { align: 'center' })
    // oxlint-disable-next-line react/exhaustive-deps -- only a new choice moves the list, not every event that comes
  }, [selected, isLoaded])

  const endsBefore = useRef(ends)
  useEffect(() => {
    if (ends === endsBefore.current) return
    endsBefore.current = ends
    follow(true)
    // oxlint-disable-next-line react/exhaustive-deps -- only a new wish moves the list
  }, [ends])

  /** The next or the previous event is chosen, from the end where none is. */
  const choose = (by: 1 | -1) => {
    const at = selected === undefined ? rows.length : rows.findLastIndex((row) => row.seq <= selected)
    const row = rows[Math.min(rows.length - 1, Math.max(0, at + by))]
    if (!row) return
    follow(false)
    onSelect(row.seq)
  }
  const toggle = () => {
    const row = items.find((item) => item.row?.seq === selected)?.row
    if (row) cards.onOpen(row.key, !opened.get(row.key))
  }
  useKeys({ j: () => choose(1), k: () => choose(-1), o: toggle })

  const cards = useMemo<Cards>(
    () => ({
      sandboxId,
      opened,
      onOpen: (key, isOpen) => {
        isReading.current = true
        setOpened((before) => new Map(before).set(key, isOpen))
      },
      selected,
      onSelect,
      onFile,
    }),
    [sandboxId, opened, selected, onSelect, onFile],
  )

  const toEnd = () => {
    follow(true)
    box.current?.focus()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'End') follow(true)
    else if (UP_KEYS.includes(event.key) && canScroll(box.current)) follow(false)
  }

  return (
    <div className="relative flex min-h-0 flex-1 flex-col">
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- watches the reader scroll, offers nothing */}
      <div
        ref={box}
        role="log"
        aria-live="off"
        aria-label="Events"
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard
        tabIndex={0}
        className="event-list min-h-0 flex-1 overflow-y-auto overscroll-contain"
        onWheel={(event) => event.deltaY < 0 && canScroll(box.current) && follow(false)}
        onScroll={({ currentTarget }) => {
          // While following, the list itself scrolls; only the reader moves it away from the end.
          const isNear = isNearEnd(currentTarget)
          const isUp = currentTarget.scrollTop < topBefore.current
          topBefore.current = currentTarget.scrollTop
          if (isNear ? !isUp : isUp) follow(isNear)
          hold(currentTarget)
        }}
        onKeyDown={onKeyDown}
      >
        <CardsContext value={cards}>
          <div className="relative" style={isFollowing ? { paddingTop: startPx } : { height: list.getTotalSize() }}>
            <ol
              className={isFollowing ? undefined : 'absolute top-0 left-0 w-full'}
              style={isFollowing ? undefined : { transform: `translateY(${startPx}px)` }}
            >
              {shown.map((item) => {
                const { row, depth } = items[item.index] ?? { row: undefined, depth: 0 }
                return (
                  <li
                    key={item.key}
                    data-index={item.index}
                    ref={list.measureElement}
                    aria-setsize={items.length}
                    aria-posinset={item.index + 1}
                    className="event-row"
                    style={depth > 0 ? { paddingLeft: depth * INDENT_PX } : undefined}
                  >
                    {row ? <EventCard row={row} /> : <Earlier isLoading={isLoadingEarlier} onEarlier={onEarlier} />}
                  </li>
                )
              })}
            </ol>
          </div>
        </CardsContext>
      </div>
      {!isFollowing && (
        <Button look="main" onClick={toEnd} className="absolute bottom-3 left-1/2 -translate-x-1/2 rounded-full shadow-lg">
          <ArrowDown size={14} aria-hidden />
          {last > leftAt ? `${last - leftAt} new` : 'Latest'}
        </Button>
      )}
    </div>
  )
}

function Earlier({ isLoading, onEarlier }: { isLoading: boolean; onEarlier: () => void }) {
  return (
    <div className="px-4 py-2">
      <Button disabled={isLoading} onClick={onEarlier}>
        {isLoading ? 'Loading…' : 'Show earlier events'}
      </Button>
    </div>
  )
}

/** Rows of a helper follow its call while that is open. */
function itemsOf(rows: readonly Row[], opened: ReadonlyMap<string, boolean>, hasEarlier: boolean): Item[] {
  const items: Item[] = hasEarlier ? [{ key: 'earlier', depth: 0, row: undefined }] : []
  const add = (row: Row, depth: number) => {
    items.push({ key: row.key, depth, row })
    if (row.kind === 'tool' && opened.get(row.key)) for (const child of row.children) add(child, depth + 1)
  }
  for (const row of rows) add(row, 0)
  return items
}

/** By how much the first of the rows that are still there has moved; a row goes when it becomes part of an earlier one. */
function movedPx(held: readonly Held[], items: readonly Item[], sizes: readonly { start: number }[]): number {
  for (const { key, index, start } of held) {
    const now = items[index]?.key === key ? index : items.findIndex((item) => item.key === key)
    const size = sizes[now]
    if (size) return size.start - start
  }
  return 0
}

/** Until a card was measured. */
function guessPx(row: Row | undefined): number {
  switch (row?.kind) {
    case 'message':
      return 70
    case 'tool':
      return row.output.text === '' ? 28 : 86
    case 'edit':
      return 154
    default:
      return 28
  }
}

function isNearEnd({ scrollHeight, scrollTop, clientHeight }: HTMLElement): boolean {
  return scrollHeight - scrollTop - clientHeight < NEAR_PX
}

function canScroll(element: HTMLElement | null): boolean {
  return element !== null && element.scrollHeight > element.clientHeight
}
