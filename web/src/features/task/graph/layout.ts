// Where each task of a graph is drawn: layers from left to right as the server gives them, few crossings, short edges.
// A thousand tasks take a few milliseconds, so this needs no thread of its own. No React inside.

import type { GraphEdge, GraphNode } from '../../../api/types'

export const NODE_W = 210
export const NODE_H = 52
const GAP_X = 72
const GAP_Y = 18
/** Room for an edge that passes a layer. */
const PASS_H = 10
const MARGIN = 24
const SWEEPS = 6
/** Edges that would need more bends go straight. */
const BENDS_MAX = 5_000
/** Tasks that hang together with nothing stand below the rest, so many beside each other at least. */
const ALONE_COLUMNS = 4

export type Spot = { node: GraphNode; x: number; y: number; layer: number }
export type Route = { from: string; to: string; path: string; left: number; right: number; top: number; bottom: number }
export type Layout = {
  spots: ReadonlyMap<string, Spot>
  routes: readonly Route[]
  width: number
  height: number
  /** Tasks that wait for each other in a ring, or for such: there should be none. */
  cycle: readonly string[]
}

type Graph = { nodes: readonly GraphNode[]; edges: readonly GraphEdge[]; groups: readonly (readonly string[])[] }
/** A task, or the place where an edge passes a layer. `y` is its middle. */
type Item = { id: string | undefined; layer: number; height: number; y: number; before: number[]; after: number[] }

export function layOut({ nodes, edges, groups }: Graph): Layout {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const joined = edges.filter(({ task_id, depends_on }) => byId.has(task_id) && byId.has(depends_on))
  const linked = new Set(joined.flatMap(({ task_id, depends_on }) => [task_id, depends_on]))
  const grouped = new Set(groups.flat())
  const cycle = nodes.filter(({ id }) => !grouped.has(id)).map(({ id }) => id)
  const rows = [...groups, cycle].map((group) => group.filter((id) => linked.has(id))).filter((row) => row.length > 0)

  const items: Item[] = []
  const at = new Map<string, number>()
  const layers = rows.map((row, layer) =>
    row.map((id) => {
      at.set(id, items.length)
      return items.push({ id, layer, height: NODE_H, y: 0, before: [], after: [] }) - 1
    }),
  )
  const bends = bendAll(joined, items, layers, at)
  for (let sweep = 0; sweep < SWEEPS; sweep++) order(items, layers, sweep % 2 === 0)
  spread(items, layers)

  const spots = new Map<string, Spot>()
  for (const item of items) {
    const node = item.id === undefined ? undefined : byId.get(item.id)
    if (node) spots.set(node.id, { node, layer: item.layer, x: leftOf(item.layer), y: item.y - NODE_H / 2 })
  }
  const bottom = Math.max(MARGIN, ...[...spots.values()].map(({ y }) => y + NODE_H + 2 * GAP_Y))
  const columns = Math.max(rows.length, ALONE_COLUMNS)
  const alone = nodes.filter(({ id }) => !linked.has(id))
  alone.forEach((node, n) => {
    const y = bottom + Math.floor(n / columns) * (NODE_H + GAP_Y)
    spots.set(node.id, { node, layer: n % columns, x: leftOf(n % columns), y })
  })
  const all = [...spots.values()]
  return {
    spots,
    routes: joined.map((edge, n) => routeOf(edge, spots, (bends[n] ?? []).map((index) => items[index]))),
    width: Math.max(0, ...all.map(({ x }) => x + NODE_W)) + MARGIN,
    height: Math.max(0, ...all.map(({ y }) => y + NODE_H)) + MARGIN,
    cycle,
  }
}

function leftOf(layer: number): number {
  return MARGIN + layer * (NODE_W + GAP_X)
}

/** Gives every edge a place in the layers that it passes, and joins all to their neighbours. */
function bendAll(edges: readonly GraphEdge[], items: Item[], layers: number[][], at: ReadonlyMap<string, number>): number[][] {
  let count = 0
  return edges.map(({ task_id, depends_on }) => {
    const [from, to] = [at.get(depends_on), at.get(task_id)]
    const [start, end] = [items[from ?? -1], items[to ?? -1]]
    if (from === undefined || to === undefined || !start || !end) return []
    const own: number[] = []
    let last = from
    for (let layer = start.layer + 1; layer < end.layer && count < BENDS_MAX; layer++, count++) {
      const index = items.push({ id: undefined, layer, height: PASS_H, y: 0, before: [], after: [] }) - 1
      layers[layer]?.push(index)
      join(items, last, index)
      own.push(index)
      last = index
    }
    join(items, last, to)
    return own
  })
}

function join(items: Item[], from: number, to: number) {
  items[from]?.after.push(to)
  items[to]?.before.push(from)
}

/** One sweep over the layers: each is ordered by where its neighbours stand, which leaves few crossings. */
function order(items: Item[], layers: number[][], isForward: boolean) {
  const place = new Map<number, number>()
  for (const layer of layers) layer.forEach((index, n) => place.set(index, n))
  for (const layer of isForward ? layers : layers.toReversed()) {
    const middle = new Map(
      layer.map((index, n) => {
        const beside = (isForward ? items[index]?.before : items[index]?.after) ?? []
        return [index, beside.length > 0 ? mean(beside.map((other) => place.get(other) ?? 0)) : n]
      }),
    )
    layer.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0))
    layer.forEach((index, n) => place.set(index, n))
  }
}

/** Gives each its height on the page: as near to its neighbours as the order within the layer allows. */
function spread(items: Item[], layers: number[][]) {
  for (const layer of layers) settle(items, layer, layer.map(() => 0))
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isForward = sweep % 2 === 0
    for (const layer of isForward ? layers : layers.toReversed()) {
      const wanted = layer.map((index) => {
        const item = items[index]
        const beside = (isForward ? item?.before : item?.after) ?? []
        return beside.length > 0 ? mean(beside.map((other) => items[other]?.y ?? 0)) : (item?.y ?? 0)
      })
      settle(items, layer, wanted)
    }
  }
  const top = Math.min(...items.map(({ y, height }) => y - height / 2), Number.POSITIVE_INFINITY)
  for (const item of items) item.y += MARGIN - top
}

/** The nearest to what is wanted, by least squares, that keeps order and distance: neighbours that would collide move as one. */
function settle(items: Item[], layer: readonly number[], wanted: readonly number[]) {
  const offsets: number[] = []
  layer.forEach((index, n) => {
    const above = n === 0 ? undefined : items[layer[n - 1] ?? -1]
    const apart = above ? (above.height + (items[index]?.height ?? 0)) / 2 + GAP_Y : 0
    offsets.push((offsets[n - 1] ?? 0) + apart)
  })
  const blocks: { sum: number; count: number }[] = []
  wanted.forEach((y, n) => {
    let block = { sum: y - (offsets[n] ?? 0), count: 1 }
    for (let last = blocks.at(-1); last && last.sum / last.count > block.sum / block.count; last = blocks.at(-1)) {
      blocks.pop()
      block = { sum: last.sum + block.sum, count: last.count + block.count }
    }
    blocks.push(block)
  })
  let n = 0
  for (const { sum, count } of blocks) {
    for (let i = 0; i < count; i++, n++) {
      const item = items[layer[n] ?? -1]
      if (item) item.y = sum / count + (offsets[n] ?? 0)
    }
  }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

function routeOf({ task_id, depends_on }: GraphEdge, spots: ReadonlyMap<string, Spot>, bends: (Item | undefined)[]): Route {
  const [from, to] = [spots.get(depends_on), spots.get(task_id)]
  const start = { x: (from?.x ?? 0) + NODE_W, y: (from?.y ?? 0) + NODE_H / 2 }
  const end = { x: to?.x ?? 0, y: (to?.y ?? 0) + NODE_H / 2 }
  let path = `M${round(start.x)} ${round(start.y)}`
  let last = start
  const curve = (x: number, y: number) => {
    const middle = round((last.x + x) / 2)
    path += `C${middle} ${round(last.y)} ${middle} ${round(y)} ${round(x)} ${round(y)}`
    last = { x, y }
  }
  const ys = [start.y, end.y]
  for (const bend of bends) {
    if (!bend) continue
    ys.push(bend.y)
    curve(leftOf(bend.layer), bend.y)
    last = { x: leftOf(bend.layer) + NODE_W, y: bend.y }
    path += `H${round(last.x)}`
  }
  curve(end.x, end.y)
  const [left, right] = [Math.min(start.x, end.x), Math.max(start.x, end.x)]
  return { from: depends_on, to: task_id, path, left, right, top: Math.min(...ys), bottom: Math.max(...ys) }
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
