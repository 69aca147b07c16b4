import { ArrowDown } from 'lucide-react'
import { useEffect, useEffectEvent, useLayoutEffect, useMemo, useRef, useState } from 'react'
import type { LogEvent } from '../../live/log'
import { Button } from '../../ui/Button'
import { EventRow } from './EventRow'
import { rowsOf } from './rows'

/** This close to the end counts as being there. */
const NEAR_PX = 60

type Props = {
  events: readonly LogEvent[]
  hasEarlier: boolean
  isLoadingEarlier: boolean
  onEarlier: () => void
  onFollow: (isFollowing: boolean) => void
}

/** Events, newest last. Follows the end while the reader is there, and moves nothing while they are elsewhere. */
export function EventList({ events, hasEarlier, isLoadingEarlier, onEarlier, onFollow }: Props) {
  const box = useRef<HTMLDivElement>(null)
  const list = useRef<HTMLOListElement>(null)
  const rows = useMemo(() => rowsOf(events), [events])
  const last = events.at(-1)?.seq ?? 0
  const first = events[0]?.seq ?? 0
  /** While the reader is away from the end: the last event they can have seen there. */
  const [leftAt, setLeftAt] = useState<number>()
  const isFollowing = leftAt === undefined
  const shown = useRef({ first, height: 0 })

  useLayoutEffect(() => {
    const element = box.current
    if (!element) return
    // What was loaded above pushes the rest down by as much as the list has grown.
    if (isFollowing) element.scrollTop = element.scrollHeight
    else if (first < shown.current.first) element.scrollTop += element.scrollHeight - shown.current.height
    shown.current = { first, height: element.scrollHeight }
  })

  const follow = (isWanted: boolean) => {
    if (isWanted === isFollowing) return
    setLeftAt(isWanted ? undefined : last)
    onFollow(isWanted)
  }

  const resized = useEffectEvent((element: HTMLElement, isBox: boolean) => {
    // A smaller box hides the end; a row that was opened is being read.
    if (isBox && isFollowing) element.scrollTop = element.scrollHeight
    else follow(isNearEnd(element))
  })
  useEffect(() => {
    const [outer, inner] = [box.current, list.current]
    if (!outer || !inner) return undefined
    const observer = new ResizeObserver((entries) => {
      resized(
        outer,
        entries.some((entry) => entry.target === outer),
      )
    })
    observer.observe(outer)
    observer.observe(inner)
    return () => observer.disconnect()
  }, [])

  const toEnd = () => {
    follow(true)
    box.current?.focus()
  }

  return (
    <div className="relative flex min-h-0 flex-1 flex-col">
      <div
        ref={box}
        role="log"
        aria-live="off"
        aria-label="Events"
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard
        tabIndex={0}
        className="event-list min-h-0 flex-1 overflow-y-auto overscroll-contain py-2"
        onScroll={(event) => follow(isNearEnd(event.currentTarget))}
      >
        {hasEarlier && (
          <div className="px-4 pb-2">
            <Button disabled={isLoadingEarlier} onClick={onEarlier}>
              {isLoadingEarlier ? 'Loading…' : 'Show earlier events'}
            </Button>
          </div>
        )}
        <ol ref={list}>
          {rows.map((row) => (
            <li key={row.key} className="event-row">
              <EventRow row={row} />
            </li>
          ))}
        </ol>
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

function isNearEnd({ scrollHeight, scrollTop, clientHeight }: HTMLElement): boolean {
  return scrollHeight - scrollTop - clientHeight < NEAR_PX
}
