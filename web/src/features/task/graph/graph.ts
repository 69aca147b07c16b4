// What a graph of tasks says: what hangs on what, how an edge stands, and the same as an indented list. No React inside.

import type { GraphEdge, GraphNode, TaskGraph, TaskStatus } from '../../../api/types'

/** Without completed tasks, if they are to be left out. */
export function shownOf(graph: TaskGraph, isHiding: boolean): Pick<TaskGraph, 'nodes' | 'edges' | 'groups'> {
  if (!isHiding) return graph
  const nodes = graph.nodes.filter(({ status }) => status !== 'completed')
  const kept = new Set(nodes.map(({ id }) => id))
  return {
    nodes,
    edges: graph.edges.filter(({ task_id, depends_on }) => kept.has(task_id) && kept.has(depends_on)),
    groups: graph.groups.map((group) => group.filter((id) => kept.has(id))),
  }
}

/** The task, all it waits for and all that waits for it, near or far. */
export function lineage(edges: readonly GraphEdge[], id: string): Set<string> {
  const [before, after] = [new Map<string, string[]>(), new Map<string, string[]>()]
  for (const { task_id, depends_on } of edges) {
    before.set(task_id, [...(before.get(task_id) ?? []), depends_on])
    after.set(depends_on, [...(after.get(depends_on) ?? []), task_id])
  }
  const found = new Set([id])
  for (const next of [before, after]) {
    const queue = [id]
    for (let at = queue.pop(); at !== undefined; at = queue.pop()) {
      for (const other of next.get(at) ?? []) {
        if (found.has(other)) continue
        found.add(other)
        queue.push(other)
      }
    }
  }
  return found
}

export type EdgeState = 'done' | 'waiting' | 'blocked'

/** As what is waited for stands; what is over waits for nothing any more. */
export function edgeState(from: TaskStatus, to: TaskStatus): EdgeState {
  if (from === 'completed') return 'done'
  const isStuck = from === 'failed' || from === 'cancelled'
  return isStuck && to !== 'completed' && to !== 'cancelled' ? 'blocked' : 'waiting'
}

const LOOKED_FOR: TaskStatus[] = ['running', 'assigned', 'failed', 'pending', 'cancelled', 'completed']

/** Where to look first: what runs, else what failed, else what waits. */
export function startOf(nodes: readonly GraphNode[]): string | undefined {
  for (const status of LOOKED_FOR) {
    const found = nodes.find((node) => node.status === status)
    if (found) return found.id
  }
  return undefined
}

export type OutlineRow = { node: GraphNode; depth: number; waitsFor: GraphNode[] }

/** Each task once, below the last of those that it waits for. */
export function outline({ nodes, edges, groups }: Pick<TaskGraph, 'nodes' | 'edges' | 'groups'>): OutlineRow[] {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const layer = new Map(groups.flatMap((group, n) => group.map((id) => [id, n] as const)))
  const before = new Map<string, GraphNode[]>()
  for (const { task_id, depends_on } of edges) {
    const on = byId.get(depends_on)
    if (on && byId.has(task_id)) before.set(task_id, [...(before.get(task_id) ?? []), on])
  }
  const below = new Map<string | undefined, GraphNode[]>()
  const ordered = nodes.toSorted((a, b) => (layer.get(a.id) ?? Infinity) - (layer.get(b.id) ?? Infinity) || 0)
  for (const node of ordered) {
    // One in a ring has no layer, and no place below another.
    const parents = layer.has(node.id) ? (before.get(node.id) ?? []) : []
    const last = parents.toSorted((a, b) => (layer.get(b.id) ?? 0) - (layer.get(a.id) ?? 0))[0]
    below.set(last?.id, [...(below.get(last?.id) ?? []), node])
  }
  const rows: OutlineRow[] = []
  const stack = (below.get(undefined) ?? []).map((node) => ({ node, depth: 0 })).toReversed()
  for (let at = stack.pop(); at; at = stack.pop()) {
    const { node, depth } = at
    rows.push({ node, depth, waitsFor: before.get(node.id) ?? [] })
    stack.push(...(below.get(node.id) ?? []).map((child) => ({ node: child, depth: depth + 1 })).toReversed())
  }
  return rows
}
