import { describe, expect, test } from 'vitest'
import type { TaskStatus } from '../../api/types'
import { moveBy, moveInto, moveKey, moveOnto, movesOf, type Movable } from './moves'

const task = (status: TaskStatus, more: Partial<Movable> = {}): Movable => ({
  status,
  priority: 'MEDIUM',
  unmet_dependencies: 0,
  ...more,
})
const cancel = (status: TaskStatus) => movesOf(task(status)).find((move) => move.kind === 'cancel')
const COLUMNS: TaskStatus[] = ['pending', 'assigned', 'running', 'completed', 'failed', 'cancelled']

describe('what may be done with a task', () => {
  test.each([
    ['pending', ['start', 'CRITICAL', 'HIGH', 'LOW', 'cancel']],
    ['assigned', ['CRITICAL', 'HIGH', 'LOW', 'cancel']],
    ['running', ['CRITICAL', 'HIGH', 'LOW', 'cancel']],
    ['failed', ['retry', 'CRITICAL', 'HIGH', 'LOW']],
    ['cancelled', ['retry', 'CRITICAL', 'HIGH', 'LOW']],
    ['completed', []],
  ] as const)('%s', (status, keys) => {
    expect(movesOf(task(status)).map(moveKey)).toEqual(keys)
  })

  test('one that is blocked cannot be started', () => {
    expect(movesOf(task('pending', { unmet_dependencies: 1 })).map(moveKey)).not.toContain('start')
  })

  test('only one that is under way is asked about', () => {
    expect(cancel('running')).toEqual({ kind: 'cancel', isAsked: true })
    expect(cancel('pending')).toEqual({ kind: 'cancel', isAsked: false })
  })
})

describe('where a card may be put', () => {
  test.each([
    ['pending', ['', 'start', 'start', '', '', 'cancel']],
    ['assigned', ['', '', '', '', '', 'cancel']],
    ['running', ['', '', '', '', '', 'cancel']],
    ['completed', ['', '', '', '', '', '']],
    ['failed', ['retry', '', '', '', '', '']],
    ['cancelled', ['retry', '', '', '', '', '']],
  ] as const)('%s', (status, kinds) => {
    expect(COLUMNS.map((column) => moveInto(task(status), column)?.kind ?? '')).toEqual(kinds)
  })

  test('one that waits takes the priority of the one that it is put on', () => {
    const urgent = task('pending', { priority: 'CRITICAL' })
    expect(moveOnto(task('pending'), urgent)).toEqual({ kind: 'priority', to: 'CRITICAL' })
    expect(moveOnto(task('pending'), task('pending'))).toBeUndefined()
    expect(moveOnto(task('failed'), urgent)).toBeUndefined()
  })

  test('priority goes by steps, and no further than it goes', () => {
    expect(moveBy(task('pending'), 1)).toEqual({ kind: 'priority', to: 'HIGH' })
    expect(moveBy(task('pending'), -1)).toEqual({ kind: 'priority', to: 'LOW' })
    expect(moveBy(task('pending', { priority: 'CRITICAL' }), 1)).toBeUndefined()
    expect(moveBy(task('completed'), 1)).toBeUndefined()
  })
})
