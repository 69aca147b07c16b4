import { describe, expect, test } from 'vitest'
import { parseDiff } from './diff'
import { lineDiff } from './lineDiff'

const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => `line ${from + n}`)

describe('what differs between two texts', () => {
  test('is nothing where they are the same', () => {
    expect(lineDiff('a\nb\n', 'a\nb')).toBe('')
    expect(lineDiff('', '')).toBe('')
  })

  test('is each line that came or went, with those around it and their true numbers', () => {
    const before = numbers(1, 30).join('\n')
    const after = [...numbers(1, 9), 'new', ...numbers(11, 27), ...numbers(29, 30), 'end'].join('\n')
    const { lines } = parseDiff(lineDiff(before, after))
    expect(lines.filter(({ kind }) => kind === 'hunk')).toHaveLength(2)
    expect(lines.filter(({ kind }) => kind === 'removed' || kind === 'added')).toEqual([
      { kind: 'removed', old: 10, text: 'line 10' },
      { kind: 'added', now: 10, text: 'new' },
      { kind: 'removed', old: 28, text: 'line 28' },
      { kind: 'added', now: 30, text: 'end' },
    ])
  })

  test('is all of a text that was not there before, and of one that is gone', () => {
    expect(lineDiff('', 'a\nb')).toBe('@@ -0,0 +1,2 @@\n+a\n+b')
    expect(lineDiff('a\nb', '')).toBe('@@ -1,2 +0,0 @@\n-a\n-b')
  })

  test('keeps lines that stayed while others moved around them', () => {
    expect(lineDiff('a\nb\nc', 'x\nb\ny\nc')).toBe('@@ -1,3 +1,4 @@\n-a\n+x\n b\n+y\n c')
  })

  test('tells a long middle as replaced, and soon', () => {
    const before = Array.from({ length: 5_000 }, (_, n) => `old ${n}`).join('\n')
    const after = Array.from({ length: 5_000 }, (_, n) => `new ${n}`).join('\n')
    expect(parseDiff(lineDiff(before, after)).lines).toHaveLength(10_001)
  })
})
