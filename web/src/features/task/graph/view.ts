// What of a drawing is in sight, and where the next task lies in a direction. No React inside.

import { NODE_H, NODE_W, type Layout, type Spot } from './layout'

export const ZOOM_MIN = 0.1
export const ZOOM_MAX = 2
/** Opened smaller than this, nothing could be read. */
export const ZOOM_OPEN_MIN = 0.9
/** Smaller than this, tasks are drawn without words. */
export const ZOOM_WORDS = 0.35
/** A window moves in steps, so that scrolling a little draws nothing anew. */
const STEP = 128

/** In the coordinates of the drawing. */
export type Window = { left: number; top: number; right: number; bottom: number }

export function windowAt(scroll: { left: number; top: number; width: number; height: number }, zoom: number): Window {
  const step = STEP / zoom
  const down = (px: number) => (Math.floor(px / STEP) * STEP) / zoom - step
  const up = (px: number) => (Math.ceil(px / STEP) * STEP) / zoom + step
  return {
    left: down(scroll.left),
    top: down(scroll.top),
    right: up(scroll.left + scroll.width),
    bottom: up(scroll.top + scroll.height),
  }
}

export function isSameWindow(a: Window, b: Window): boolean {
  return a.left === b.left && a.top === b.top && a.right === b.right && a.bottom === b.bottom
}

export function inSight(layout: Layout, { left, top, right, bottom }: Window) {
  return {
    spots: [...layout.spots.values()].filter(
      ({ x, y }) => x < right && x + NODE_W > left && y < bottom && y + NODE_H > top,
    ),
    routes: layout.routes.filter(
      (route) => route.left < right && route.right > left && route.top <= bottom && route.bottom >= top,
    ),
  }
}

/** So that all of it is in sight, but not larger than life. */
export function zoomToFit(layout: Layout, width: number, height: number): number {
  return clampZoom(Math.min(1, width / Math.max(1, layout.width), height / Math.max(1, layout.height)))
}

export function clampZoom(zoom: number): number {
  return Math.min(ZOOM_MAX, Math.max(ZOOM_MIN, zoom))
}

const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] } as const
export type Arrow = keyof typeof KEYS

export function isArrow(key: string): key is Arrow {
  return Object.hasOwn(KEYS, key)
}

/** The nearest in that direction; what lies aside counts for more than what lies ahead. */
export function nextSpot(layout: Layout, from: Spot, key: Arrow): Spot | undefined {
  const [dx, dy] = KEYS[key]
  const distance = ({ x, y }: Spot) => {
    const ahead = (x - from.x) * dx + (y - from.y) * dy
    const aside = Math.abs((x - from.x) * dy) + Math.abs((y - from.y) * dx)
    return ahead <= 0 ? Infinity : ahead + 2 * aside
  }
  let best: [Spot | undefined, number] = [undefined, Infinity]
  for (const spot of layout.spots.values()) {
    const far = distance(spot)
    if (far < best[1]) best = [spot, far]
  }
  return best[0]
}
