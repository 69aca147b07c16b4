import { useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent, type PointerEvent } from 'react'
import type { TaskStatus } from '../../../api/types'
import { edgeState, type EdgeState } from './graph'
import { NODE_H, NODE_W, type Layout, type Route, type Spot } from './layout'
import { Node, type Mark } from './Node'
import { clampZoom, inSight, isArrow, isSameWindow, nextSpot, windowAt, ZOOM_OPEN_MIN, ZOOM_WORDS, zoomToFit, type Window } from './view'

const WHEEL = 0.0015
/** A press that moves this far moves the drawing, and chooses nothing. */
const PAN_PX = 4
const NOTHING: Window = { left: 0, top: 0, right: 1_200, bottom: 800 }

const FILLS: Record<TaskStatus, string> = {
  pending: 'fill-line-strong',
  assigned: 'fill-guard',
  running: 'fill-run',
  completed: 'fill-ok',
  failed: 'fill-bad',
  cancelled: 'fill-line',
}
const STROKES: Record<EdgeState, string> = { done: 'stroke-ok', waiting: 'stroke-line-strong', blocked: 'stroke-bad' }

/** Says what the buttons beside the drawing ask of it. */
export type Zoomer = { by: (factor: number) => void; fit: () => void }

type Props = {
  layout: Layout
  /** In the middle when it opens, and whenever it is another. */
  start: string | undefined
  chosen: string | undefined
  related: ReadonlySet<string> | undefined
  critical: ReadonlySet<string>
  holders: ReadonlyMap<string, string>
  /** Why a task cannot begin. */
  conflicts: ReadonlyMap<string, string>
  /** How much of its right side something lies over. */
  coveredPx: number
  onChoose: (id: string) => void
  zoomer: React.RefObject<Zoomer | null>
}

/** Draws what is in sight. Scrolling is the browser's own; the wheel with Ctrl, and keys, make it larger and smaller. */
export function Canvas({ layout, start, chosen, related, critical, holders, conflicts, coveredPx, onChoose, zoomer }: Props) {
  const box = useRef<HTMLDivElement>(null)
  const [zoom, setZoom] = useState(1)
  const [window, setWindow] = useState(NOTHING)
  /** What shall be in the middle once the new size is there. */
  const middle = useRef<{ x: number; y: number } | undefined>(undefined)

  const look = () => {
    const at = box.current
    if (!at) return
    const seen = { left: at.scrollLeft, top: at.scrollTop, width: at.clientWidth, height: at.clientHeight }
    const next = windowAt(seen, zoom)
    setWindow((before) => (isSameWindow(before, next) ? before : next))
  }
  const zoomBy = (factor: number, clientX?: number, clientY?: number) => {
    const at = box.current
    if (!at) return
    const next = clampZoom(zoom * factor)
    const rect = at.getBoundingClientRect()
    const px = clientX === undefined ? at.clientWidth / 2 : clientX - rect.left
    const py = clientY === undefined ? at.clientHeight / 2 : clientY - rect.top
    // What is under the pointer stays under it.
    const [x, y] = [(at.scrollLeft + px) / zoom, (at.scrollTop + py) / zoom]
    middle.current = { x: x + (at.clientWidth / 2 - px) / next, y: y + (at.clientHeight / 2 - py) / next }
    setZoom(next)
  }
  const fit = () => {
    if (!box.current) return
    middle.current = { x: layout.width / 2, y: layout.height / 2 }
    setZoom(zoomToFit(layout, box.current.clientWidth, box.current.clientHeight))
  }
  useEffect(() => {
    zoomer.current = { by: (factor) => zoomBy(factor), fit }
  })

  // Opens where something happens, at a size that can be read.
  useLayoutEffect(() => {
    const spot = layout.spots.get(start ?? '')
    if (!box.current || !spot) return
    const fitting = zoomToFit(layout, box.current.clientWidth, box.current.clientHeight)
    middle.current = { x: spot.x + NODE_W / 2, y: spot.y + NODE_H / 2 }
    setZoom(Math.max(ZOOM_OPEN_MIN, fitting))
    centre(box.current, middle.current, Math.max(ZOOM_OPEN_MIN, fitting))
    // oxlint-disable-next-line react/exhaustive-deps -- a change of some task must not move what is being read
  }, [start])

  useLayoutEffect(() => {
    if (box.current && middle.current) centre(box.current, middle.current, zoom)
    middle.current = undefined
    look()
    // oxlint-disable-next-line react/exhaustive-deps -- on a new size or drawing alone
  }, [zoom, layout])

  // The chosen one is not left under what shows it.
  useLayoutEffect(() => {
    const spot = layout.spots.get(chosen ?? '')
    const at = box.current
    if (!spot || !at || coveredPx === 0) return
    const right = (spot.x + NODE_W) * zoom - at.scrollLeft
    if (right > at.clientWidth - coveredPx) at.scrollLeft += right - (at.clientWidth - coveredPx) / 2
    // oxlint-disable-next-line react/exhaustive-deps -- once it is chosen; after that the reader scrolls
  }, [chosen, coveredPx])

  useEffect(() => {
    const at = box.current
    if (!at) return
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return
      event.preventDefault()
      zoomBy(Math.exp(-event.deltaY * WHEEL), event.clientX, event.clientY)
    }
    const size = new ResizeObserver(() => look())
    size.observe(at)
    at.addEventListener('wheel', onWheel, { passive: false })
    return () => {
      size.disconnect()
      at.removeEventListener('wheel', onWheel)
    }
  })

  const { spots, routes } = inSight(layout, window)
  const statusOf = (id: string) => layout.spots.get(id)?.node.status ?? 'pending'
  const markOf = (id: string): Mark =>
    id === chosen ? 'chosen' : related?.has(id) ? 'related' : critical.has(id) ? 'critical' : 'none'
  const isWorded = zoom >= ZOOM_WORDS
  const stop = chosen !== undefined && layout.spots.has(chosen) ? chosen : (start ?? spots[0]?.node.id)

  const onKeyDown = (event: KeyboardEvent) => {
    const id = event.target instanceof Element ? event.target.getAttribute('data-node') : null
    const from = layout.spots.get(id ?? '')
    if (!from || !isArrow(event.key)) return
    const next = nextSpot(layout, from, event.key)
    event.preventDefault()
    if (next && box.current) reach(box.current, next, zoom)
  }
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- moves what is inside, whose parts take the focus
    <div
      ref={box}
      role="group"
      aria-label="Tasks and what they wait for, as a drawing"
      onScroll={look}
      onKeyDown={onKeyDown}
      onPointerDown={(event) => box.current && pan(event, box.current)}
      className="min-h-0 flex-1 cursor-grab overflow-auto bg-bg active:cursor-grabbing"
    >
      <div style={{ width: layout.width * zoom + coveredPx, height: layout.height * zoom }} className="overflow-hidden">
        <div style={{ width: layout.width, height: layout.height, transform: `scale(${zoom})` }} className="relative origin-top-left">
          <svg width={layout.width} height={layout.height} aria-hidden className="absolute inset-0">
            {routes.map((route) => (
              <Edge
                key={`${route.from} ${route.to}`}
                route={route}
                state={edgeState(statusOf(route.from), statusOf(route.to))}
                isRelated={related !== undefined && related.has(route.from) && related.has(route.to)}
                isCritical={critical.has(route.from) && critical.has(route.to)}
              />
            ))}
            {!isWorded && spots.map((spot) => <Block key={spot.node.id} spot={spot} mark={markOf(spot.node.id)} onChoose={onChoose} />)}
          </svg>
          {isWorded &&
            spots.map((spot) => (
              <Node
                key={spot.node.id}
                spot={spot}
                mark={markOf(spot.node.id)}
                sandbox={holders.get(spot.node.id)}
                conflict={conflicts.get(spot.node.id)}
                isTabStop={spot.node.id === stop}
                onChoose={onChoose}
              />
            ))}
        </div>
      </div>
    </div>
  )
}

type EdgeProps = { route: Route; state: EdgeState; isRelated: boolean; isCritical: boolean }

function Edge({ route, state, isRelated, isCritical }: EdgeProps) {
  const stroke = isRelated ? 'stroke-accent' : isCritical ? 'stroke-warn' : STROKES[state]
  return (
    <path
      d={route.path}
      data-edge={state}
      strokeWidth={isRelated || isCritical ? 2.5 : 1.5}
      strokeDasharray={state === 'waiting' ? '5 4' : undefined}
      className={`fill-none ${stroke}`}
    />
  )
}

/** Too small for words; the list has them. */
function Block({ spot, mark, onChoose }: { spot: Spot; mark: Mark; onChoose: (id: string) => void }) {
  return (
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-static-element-interactions -- for a pointer; keys have the list
    <rect
      x={spot.x}
      y={spot.y}
      width={NODE_W}
      height={NODE_H}
      rx={6}
      strokeWidth={10}
      onClick={() => onChoose(spot.node.id)}
      className={`cursor-pointer ${FILLS[spot.node.status]} ${mark === 'none' ? 'stroke-none' : mark === 'critical' ? 'stroke-warn' : 'stroke-accent'}`}
    />
  )
}

function centre(box: HTMLElement, at: { x: number; y: number }, zoom: number) {
  box.scrollLeft = at.x * zoom - box.clientWidth / 2
  box.scrollTop = at.y * zoom - box.clientHeight / 2
}

/** Brings a task into sight and gives it the focus once it is drawn. */
function reach(box: HTMLElement, spot: Spot, zoom: number) {
  const [x, y] = [spot.x * zoom, spot.y * zoom]
  const isSeen =
    x >= box.scrollLeft &&
    y >= box.scrollTop &&
    x + NODE_W * zoom <= box.scrollLeft + box.clientWidth &&
    y + NODE_H * zoom <= box.scrollTop + box.clientHeight
  if (!isSeen) centre(box, { x: spot.x + NODE_W / 2, y: spot.y + NODE_H / 2 }, zoom)
  requestAnimationFrame(() => {
    const nodes = [...box.querySelectorAll<HTMLElement>('[data-node]')]
    nodes.find((node) => node.dataset.node === spot.node.id)?.focus({ preventScroll: true })
  })
}

/** A mouse drags the drawing; fingers scroll it by themselves. */
function pan(down: PointerEvent, box: HTMLElement) {
  if (down.pointerType !== 'mouse' || down.button !== 0) return
  const from = { left: box.scrollLeft, top: box.scrollTop }
  let isMoved = false
  const move = (event: globalThis.PointerEvent) => {
    const [dx, dy] = [event.clientX - down.clientX, event.clientY - down.clientY]
    isMoved ||= Math.hypot(dx, dy) > PAN_PX
    if (!isMoved) return
    box.scrollLeft = from.left - dx
    box.scrollTop = from.top - dy
  }
  const end = () => {
    document.removeEventListener('pointermove', move)
    document.removeEventListener('pointerup', end)
    document.removeEventListener('pointercancel', end)
    // The click that follows a drag is none.
    if (isMoved) document.addEventListener('click', swallow, { capture: true, once: true })
    setTimeout(() => document.removeEventListener('click', swallow, { capture: true }))
  }
  document.addEventListener('pointermove', move)
  document.addEventListener('pointerup', end)
  document.addEventListener('pointercancel', end)
}

function swallow(event: Event) {
  event.stopPropagation()
  event.preventDefault()
}
