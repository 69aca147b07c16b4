import { expect, test } from 'vitest'
import { Fold, type Folding } from './fold'
import type { LogEvent } from './log'

const event = (seq: number): LogEvent => ({ seq, position: seq, type: 'agent.message', data: {}, at: '' })
const [one, two, three] = [event(1), event(2), event(3)]

function counting() {
  const added: number[] = []
  const begin = (): Folding<number> => {
    let count = 0
    return {
      add: ({ seq }) => {
        added.push(seq)
        count += 1
      },
      view: () => count,
    }
  }
  return { fold: new Fold(begin), added }
}

test('an event that comes at the end costs only itself', () => {
  const { fold, added } = counting()
  expect(fold.update([one])).toBe(1)
  expect(fold.update([one, two, three])).toBe(3)
  expect(fold.update([one, two, three])).toBe(3)
  expect(added).toEqual([1, 2, 3])
})

test.each([
  ['events came in front', [two, three], [one, two, three], 3],
  ['events came in between', [one, three], [one, two, three], 3],
  ['events were taken away at the end', [one, two, three], [one, two], 2],
  ['events were taken away in front', [one, two, three], [two, three], 2],
  ['none is left', [one], [], 0],
])('is worked out anew where %s', (_where, before, after, count) => {
  const { fold } = counting()
  fold.update(before)
  expect(fold.update(after)).toBe(count)
})
