import { expect, test } from 'vitest'
import { roundUp } from './Chart'

test('a scale ends at 1, 2 or 5 of a power of ten', () => {
  expect([1, 1.2, 3, 7, 10, 11, 90, 0.3].map(roundUp)).toEqual([1, 2, 5, 10, 10, 20, 100, 0.5])
})
