import { expect, test } from 'vitest'
import { storedEvent } from '../../test/fakes'
import { actsOf, type Act } from './progress'

const heard = (seq: number, words: string, sandbox = 'sbx-1'): Act => ({ sandbox, seq, words, at: '2026-11-16T09:00:00Z' })

test('what a sandbox did and does comes in its order, each once, without what says nothing', () => {
  const told = [storedEvent(3), storedEvent(2, { event_type: 'agent.heartbeat', event_data: {} }), storedEvent(1)]
  const acts = actsOf('sbx-1', told, [heard(3, 'event 3'), heard(5, 'thinks'), heard(4, 'thinks'), heard(9, 'other', 'sbx-2')])
  expect(acts.map(({ seq, words }) => [seq, words])).toEqual([
    [1, 'event 1'],
    [3, 'event 3'],
    [5, 'thinks'],
  ])
})

test('only the last of them are shown', () => {
  const many = Array.from({ length: 30 }, (_, n) => heard(n + 1, `step ${n + 1}`))
  const acts = actsOf('sbx-1', [], many)
  expect(acts).toHaveLength(8)
  expect(acts.at(-1)?.words).toBe('step 30')
})
