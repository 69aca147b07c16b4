import { describe, expect, test } from 'vitest'
import { ansiLines } from './ansi'

const texts = (output: string) => ansiLines(output).map((line) => line.map((span) => span.text).join(''))

describe('output of a terminal', () => {
  test('keeps its colours over line breaks', () => {
    expect(ansiLines('\u001b[1;31merror\nstill\u001b[0m fine\n')).toEqual([
      [{ text: 'error', className: 'ansi-red-fg font-semibold' }],
      [
        { text: 'still', className: 'ansi-red-fg font-semibold' },
        { text: ' fine', className: '' },
      ],
    ])
  })

  test('moves no cursor, sets no title and clears nothing', () => {
    expect(texts('a\u001b[2J\u001b[1;1Hb\u001b]0;evil\u0007c\u001b[?1049hd')).toEqual(['abcd'])
  })

  test('shows the last state of a line that writes over itself', () => {
    expect(texts('10 %\r50 %\r100 %\r\ndone\r\n')).toEqual(['100 %', 'done'])
  })

  test('keeps empty lines, but none after the end', () => {
    expect(texts('a\n\nb\n')).toEqual(['a', '', 'b'])
    expect(texts('')).toEqual([])
  })

  test('marks what cannot be seen, and takes markup for text', () => {
    expect(texts('\u202eevil\u0007 <b>x</b> &amp;')).toEqual(['⟨U+202E⟩evil␇ <b>x</b> &amp;'])
  })
})
