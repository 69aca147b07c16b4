import { describe, expect, test } from 'vitest'
import { lineDiff } from '../../ui/lineDiff'
import { differing, moved, snapshotOf, versionText } from './versions'

const version = (phases: unknown[], status = 'executing') =>
  snapshotOf({ snapshot: { title: 'Replay', description: 'Again.', status, gates: ['design'], phases } })

const waiting = version([{ phase: 'design', attempt: 1, state: 'waiting', score: 0.9 }], 'waiting')
const redone = version([{ phase: 'design', attempt: 2, state: 'passed', score: 1 }])

describe('versions of a spec', () => {
  test('tell what came of its phases', () => {
    expect(moved(undefined, waiting)).toEqual(['Design waiting'])
    expect(moved(waiting, redone)).toEqual(['Design passed, attempt 2'])
    expect(moved(redone, redone)).toEqual([])
  })

  test('need only the outputs that differ to be compared', () => {
    expect(differing(waiting, redone)).toEqual([
      { phase: 'design', attempt: 1 },
      { phase: 'design', attempt: 2 },
    ])
    expect(differing(redone, redone)).toEqual([])
    const running = version([{ phase: 'design', attempt: 1, state: 'running', score: null }])
    expect(differing(running, waiting)).toEqual([{ phase: 'design', attempt: 1 }])
  })

  test('keep the attempt before in sight while the next is worked on, so that the two are compared when it is done', () => {
    const again = version([{ phase: 'design', attempt: 2, state: 'running', score: null }])
    expect(differing(waiting, again)).toEqual([])
    expect(differing(again, redone)).toEqual([
      { phase: 'design', attempt: 1 },
      { phase: 'design', attempt: 2 },
    ])
    const outputs = new Map([
      ['design 1', 'same\none store'],
      ['design 2', 'same\ntwo stores'],
    ])
    const diff = lineDiff(versionText(again, outputs), versionText(redone, outputs))
    expect(diff).toContain(' same\n-one store\n+two stores')
  })

  test('differ in what stands in the outputs', () => {
    const outputs = new Map([
      ['design 1', '# Design\n\none store'],
      ['design 2', '# Design\n\ntwo stores'],
    ])
    const diff = lineDiff(versionText(waiting, outputs), versionText(redone, outputs))
    expect(diff).toContain('-one store')
    expect(diff).toContain('+two stores')
    expect(diff).toContain('-is waiting; waits for a person at: design')
  })

  test('of an unknown shape are read as far as they can be', () => {
    expect(snapshotOf({ snapshot: { phases: [{ phase: 'odd', attempt: 1 }, null], gates: 3 } }).phases).toEqual([])
  })
})
