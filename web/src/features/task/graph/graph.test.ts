import { describe, expect, test } from 'vitest'
import type { GraphNode, TaskGraph, TaskStatus } from '../../../api/types'
import { edgeState, lineage, outline, shownOf, startOf } from './graph'

const node = (id: string, status: TaskStatus = 'pending'): GraphNode => ({ id, title: id, status, priority: 'MEDIUM' })
const edge = (depends_on: string, task_id: string) => ({ depends_on, task_id })

/** a → b → d, a → c → d, and e alone. */
const DIAMOND = {
  project_id: 'p',
  nodes: [node('a', 'completed'), node('b', 'failed'), node('c', 'running'), node('d'), node('e')],
  edges: [edge('a', 'b'), edge('a', 'c'), edge('b', 'd'), edge('c', 'd')],
  groups: [['a', 'e'], ['b', 'c'], ['d']],
  critical_path: ['a', 'b', 'd'],
  critical_path_seconds: 3,
  truncated: false,
} as TaskGraph

test('a task hangs together with all before and behind it, and not with those beside it', () => {
  expect([...lineage(DIAMOND.edges, 'b')].toSorted()).toEqual(['a', 'b', 'd'])
  expect([...lineage(DIAMOND.edges, 'a')].toSorted()).toEqual(['a', 'b', 'c', 'd'])
  expect([...lineage(DIAMOND.edges, 'e')]).toEqual(['e'])
})

test.each([
  ['completed', 'pending', 'done'],
  ['running', 'pending', 'waiting'],
  ['pending', 'pending', 'waiting'],
  ['failed', 'pending', 'blocked'],
  ['cancelled', 'pending', 'blocked'],
  ['failed', 'failed', 'blocked'],
  ['failed', 'cancelled', 'waiting'],
] as const)('an edge from %s to %s is %s', (from, to, state) => {
  expect(edgeState(from, to)).toBe(state)
})

test('the first look goes to what runs, then to what failed', () => {
  expect(startOf(DIAMOND.nodes)).toBe('c')
  expect(startOf(DIAMOND.nodes.filter(({ id }) => id !== 'c'))).toBe('b')
  expect(startOf([])).toBeUndefined()
})

describe('as an indented list', () => {
  test('each task stands once, below the last it waits for, and names them all', () => {
    const rows = outline(DIAMOND).map(({ node: { id }, depth, waitsFor }) => [id, depth, waitsFor.map((on) => on.id).join()])
    expect(rows).toEqual([
      ['a', 0, ''],
      ['b', 1, 'a'],
      ['d', 2, 'b,c'],
      ['c', 1, 'a'],
      ['e', 0, ''],
    ])
  })

  test('tasks in a ring are there as well', () => {
    const ring = { nodes: [node('x'), node('y')], edges: [edge('x', 'y'), edge('y', 'x')], groups: [] }
    expect(outline(ring).map(({ node: { id } }) => id)).toEqual(['x', 'y'])
  })
})

test('completed tasks can be left out, and their edges with them', () => {
  const { nodes, edges, groups } = shownOf(DIAMOND, true)
  expect(nodes.map(({ id }) => id)).toEqual(['b', 'c', 'd', 'e'])
  expect(edges).toEqual([edge('b', 'd'), edge('c', 'd')])
  expect(groups).toEqual([['e'], ['b', 'c'], ['d']])
  expect(shownOf(DIAMOND, false)).toBe(DIAMOND)
})
