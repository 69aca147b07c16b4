import { describe, expect, test } from 'vitest'
import { GROUP_MAX, idKind, matching, type Found } from './palette'

const item = (group: string, label: string, hint?: string): Found => ({ id: label, group, label, ...(hint && { hint }), run: () => undefined })

describe('the palette', () => {
  const items = [item('Go to', 'Sandboxes', 'g x'), item('Tasks', 'Fix the box', 'running task-1'), item('Tasks', 'Box it', 'failed task-2')]

  test('finds what has every word, in label or hint', () => {
    expect(matching(items, 'box').map(({ label }) => label)).toEqual(['Box it', 'Fix the box', 'Sandboxes'])
    expect(matching(items, 'BOX failed').map(({ label }) => label)).toEqual(['Box it'])
    expect(matching(items, 'nothing')).toEqual([])
  })

  test('shows all of it in order when nothing is asked for', () => {
    expect(matching(items, ' ')).toEqual(items)
  })

  test('shows a few of each group', () => {
    const many = Array.from({ length: 50 }, (_, n) => item('Tasks', `task ${n}`))
    expect(matching([...many, item('Go to', 'task list')], 'task')).toHaveLength(GROUP_MAX + 1)
  })

  test.each([
    ['task-01abc-def', 'task'],
    [' SBX-01abcdef ', 'sandbox'],
    ['prj-0123', 'project'],
    ['task', undefined],
    ['task-<script>', undefined],
  ])('knows what an id names: %s', (query, kind) => {
    expect(idKind(query)).toBe(kind)
  })
})
