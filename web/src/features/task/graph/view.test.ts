import { describe, expect, test } from 'vitest'
import type { GraphNode } from '../../../api/types'
import { layOut, NODE_H, NODE_W } from './layout'
import { clampZoom, inSight, isSameWindow, nextSpot, windowAt, ZOOM_MAX, ZOOM_MIN, zoomToFit } from './view'

const node = (id: string): GraphNode => ({ id, title: id, status: 'pending', priority: 'MEDIUM' })
const groups = Array.from({ length: 25 }, (_, layer) => Array.from({ length: 40 }, (_unused, n) => `${layer}-${n}`))
const edges = groups.slice(1).flatMap((group, layer) => group.map((id, n) => ({ task_id: id, depends_on: `${layer}-${n}` })))
const THOUSAND = layOut({ nodes: groups.flat().map(node), edges, groups })
const isOnScreen = ({ x, y }: { x: number; y: number }) => x + NODE_W > 2_000 && x < 3_256 && y + NODE_H > 900 && y < 1_680
const SCREEN = { left: 2_000, top: 900, width: 1_256, height: 780 }

describe('of a thousand tasks', () => {
  test('only those in sight are drawn, with the edges between them', () => {
    const { spots, routes } = inSight(THOUSAND, windowAt(SCREEN, 1))
    expect(spots.length).toBeGreaterThan(30)
    expect(spots.length).toBeLessThan(200)
    expect(routes.length).toBeLessThan(250)
    expect([...THOUSAND.spots.values()].filter(isOnScreen).every((spot) => spots.includes(spot))).toBe(true)
  })

  test('scrolling a little draws nothing anew', () => {
    const here = windowAt(SCREEN, 1)
    expect(isSameWindow(here, windowAt({ ...SCREEN, left: 2_010 }, 1))).toBe(true)
    expect(isSameWindow(here, windowAt({ ...SCREEN, left: 2_400 }, 1))).toBe(false)
  })

  test('all fit when they are small enough', () => {
    const zoom = zoomToFit(THOUSAND, 1_256, 780)
    expect(THOUSAND.width * zoom <= 1_256 && THOUSAND.height * zoom <= 780).toBe(true)
    expect(zoomToFit(layOut({ nodes: [node('a')], edges: [], groups: [['a']] }), 1_256, 780)).toBe(1)
    expect([clampZoom(0), clampZoom(9)]).toEqual([ZOOM_MIN, ZOOM_MAX])
  })
})

test('arrows lead to the neighbour in their direction, and nowhere from the edge', () => {
  const layout = layOut({
    nodes: ['a', 'b', 'c', 'd'].map(node),
    edges: [
      { depends_on: 'a', task_id: 'b' },
      { depends_on: 'a', task_id: 'c' },
      { depends_on: 'b', task_id: 'd' },
    ],
    groups: [['a'], ['b', 'c'], ['d']],
  })
  const go = (from: string, key: Parameters<typeof nextSpot>[2]) => {
    const spot = layout.spots.get(from)
    return spot && nextSpot(layout, spot, key)?.node.id
  }
  expect([go('b', 'ArrowLeft'), go('b', 'ArrowDown'), go('c', 'ArrowUp'), go('b', 'ArrowRight')]).toEqual(['a', 'c', 'b', 'd'])
  expect(go('a', 'ArrowLeft')).toBeUndefined()
})
