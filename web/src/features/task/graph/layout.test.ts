import { describe, expect, test } from 'vitest'
import type { GraphEdge, GraphNode } from '../../../api/types'
import { layOut, NODE_H, NODE_W, type Layout } from './layout'

const node = (id: string): GraphNode => ({ id, title: id, status: 'pending', priority: 'MEDIUM' })
const edge = (depends_on: string, task_id: string): GraphEdge => ({ depends_on, task_id })
const graph = (groups: string[][], edges: GraphEdge[]) => ({ nodes: groups.flat().map(node), edges, groups })

function spot(layout: Layout, id: string) {
  const found = layout.spots.get(id)
  if (!found) throw new Error(`${id} is not drawn`)
  return found
}

function overlaps(layout: Layout): string[] {
  const spots = [...layout.spots.values()]
  return spots.flatMap((a, n) =>
    spots
      .slice(n + 1)
      .filter((b) => Math.abs(a.x - b.x) < NODE_W && Math.abs(a.y - b.y) < NODE_H)
      .map((b) => `${a.node.id} ${b.node.id}`),
  )
}

describe('the layout of a graph', () => {
  test('goes from left to right by layers, and a chain is a straight line', () => {
    const layout = layOut(graph([['a'], ['b'], ['c']], [edge('a', 'b'), edge('b', 'c')]))
    const [a, b, c] = ['a', 'b', 'c'].map((id) => spot(layout, id))
    expect(a && b && c && a.x < b.x && b.x < c.x).toBe(true)
    expect(new Set([a?.y, b?.y, c?.y]).size).toBe(1)
    expect([layout.width, layout.height].every((size) => size > 0)).toBe(true)
  })

  test('orders a layer so that edges need not cross', () => {
    const layout = layOut(graph([['a', 'b', 'c'], ['x', 'y', 'z']], [edge('a', 'z'), edge('b', 'y'), edge('c', 'x')]))
    const down = (ids: string[]) => ids.toSorted((p, q) => spot(layout, p).y - spot(layout, q).y)
    const pairs: Record<string, string> = { a: 'z', b: 'y', c: 'x' }
    expect(down(['x', 'y', 'z'])).toEqual(down(['a', 'b', 'c']).map((id) => pairs[id]))
  })

  test('leads an edge that passes a layer around the tasks in it', () => {
    const layout = layOut(graph([['a'], ['b'], ['c']], [edge('a', 'b'), edge('b', 'c'), edge('a', 'c')]))
    const long = layout.routes.find(({ from, to }) => from === 'a' && to === 'c')
    const [, height] = /H[\d.]+/.test(long?.path ?? '') ? (/([\d.]+)H/.exec(long?.path ?? '') ?? []) : []
    const b = spot(layout, 'b')
    expect(Number(height) < b.y || Number(height) > b.y + NODE_H).toBe(true)
  })

  test('puts nothing on top of anything else, and what is alone below the rest', () => {
    const groups = [['r', 's', 'alone 1', 'alone 2'], ['t', 'u', 'v'], ['w']]
    const layout = layOut(graph(groups, [edge('r', 't'), edge('r', 'u'), edge('s', 'v'), edge('t', 'w'), edge('v', 'w')]))
    expect(layout.spots.size).toBe(8)
    expect(overlaps(layout)).toEqual([])
    const lowest = Math.max(...['r', 's', 't', 'u', 'v', 'w'].map((id) => spot(layout, id).y))
    expect(spot(layout, 'alone 1').y).toBeGreaterThanOrEqual(lowest + NODE_H)
  })

  test('names tasks that wait for each other, and draws them all the same', () => {
    const layout = layOut({ nodes: ['a', 'b', 'c'].map(node), edges: [edge('b', 'c'), edge('c', 'b')], groups: [['a']] })
    expect(layout.cycle).toEqual(['b', 'c'])
    expect(layout.spots.size).toBe(3)
  })

  test('draws a thousand tasks without any two colliding', () => {
    const groups = Array.from({ length: 25 }, (_, layer) => Array.from({ length: 40 }, (_unused, n) => `${layer}-${n}`))
    const edges = groups.slice(1).flatMap((group, layer) =>
      group.flatMap((id, n) => [edge(`${layer}-${(n * 7) % 40}`, id), ...(layer > 3 && n % 5 === 0 ? [edge(`${layer - 3}-${n}`, id)] : [])]),
    )
    const layout = layOut(graph(groups, edges))
    expect(layout.spots.size).toBe(1_000)
    for (const left of new Set([...layout.spots.values()].map(({ x }) => x))) {
      const ys = [...layout.spots.values()].flatMap(({ x, y }) => (x === left ? [y] : [])).toSorted((a, b) => a - b)
      expect(ys.every((y, n) => n === 0 || y - (ys[n - 1] ?? 0) >= NODE_H)).toBe(true)
    }
  })

  test('an empty graph has nothing to draw', () => {
    expect(layOut(graph([], [])).spots.size).toBe(0)
  })
})
