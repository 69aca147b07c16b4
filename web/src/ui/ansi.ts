// Output of a terminal as lines of coloured text. Nothing of it is obeyed but colours: the rest is dropped, or shown as
// a mark where it would hide something.

import Anser from 'anser'
import { visible } from './plain'

export type Span = { text: string; className: string }

// eslint-disable-next-line no-control-regex -- taking them out is the point
const NOT_COLOURS = /\u001b(?:\[[0-?]*[ -/]*[@-ln-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\^_]|[()][0-9A-B])/g
// eslint-disable-next-line no-control-regex -- a colour is begun by one
const COLOUR = /^ansi-(?:bright-)?(?:black|red|green|yellow|blue|magenta|cyan|white)$/

export function ansiLines(text: string): Span[][] {
  const parts = Anser.ansiToJson(overwritten(text.replace(NOT_COLOURS, '')), {
    json: true,
    remove_empty: true,
    use_classes: true,
  })
  const lines: Span[][] = [[]]
  for (const part of parts) {
    const className = classOf(part)
    for (const [index, piece] of part.content.split('\n').entries()) {
      if (index > 0) lines.push([])
      if (piece !== '') lines.at(-1)?.push({ text: visible(piece), className })
    }
  }
  // What ends with a line break has no further line.
  if (lines.at(-1)?.length === 0) lines.pop()
  return lines
}

/** A progress bar writes over its line; the last state is what would be seen. */
function overwritten(text: string): string {
  return text.includes('\r') ? text.replace(/\r+\n/g, '\n').replace(/[^\n]*\r(?=[^\n])/g, '') : text
}

function classOf(part: { fg: string; bg: string; decorations?: string[] }): string {
  const names = [COLOUR.test(part.fg ?? '') && `${part.fg}-fg`, part.decorations?.includes('bold') && 'font-semibold']
  return names.filter(Boolean).join(' ')
}
