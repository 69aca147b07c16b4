// The lines of the terminal: every command with what it wrote, one below the other. Kept up as rows come, so that only
// what is new or different is worked out. No React inside.

import { commandsOf } from '../../live/facts'
import type { Row, ToolRow } from '../../live/rows'
import { ansiLines, type Span } from '../../ui/ansi'
import { outputOf } from './call'

export type Line = { kind: 'command'; row: ToolRow } | { kind: 'output'; spans: Span[] } | { kind: 'note'; words: string }

export class TerminalLines {
  #rows: readonly Row[] = []
  #lines: Line[] = []
  /** Where the lines of each row begin. */
  #starts: number[] = []

  /** Rows that did not change are the same objects; from the first that is not, lines are put together again. */
  update(rows: readonly Row[]): readonly Line[] {
    const same = firstDifference(this.#rows, rows)
    this.#rows = rows
    this.#lines.length = this.#starts[same] ?? this.#lines.length
    this.#starts.length = same
    for (const row of rows.slice(same)) {
      this.#starts.push(this.#lines.length)
      for (const command of commandsOf([row])) this.#lines.push(...linesOf(command))
    }
    return this.#lines.slice()
  }
}

function firstDifference(before: readonly Row[], now: readonly Row[]): number {
  const index = now.findIndex((row, n) => row !== before[n])
  return index < 0 ? now.length : index
}

/** Worked out once for each state of a command. */
const KNOWN = new WeakMap<ToolRow, Line[]>()

function linesOf(row: ToolRow): Line[] {
  const known = KNOWN.get(row)
  if (known) return known
  const lines: Line[] = [{ kind: 'command', row }]
  if (row.output.isCut) lines.push({ kind: 'note', words: '… earlier lines are left out' })
  for (const spans of ansiLines(outputOf(row))) lines.push({ kind: 'output', spans })
  if (row.output.droppedBytes > 0) lines.push({ kind: 'note', words: `… ${row.output.droppedBytes} bytes more were not kept` })
  lines.push({ kind: 'note', words: '' })
  KNOWN.set(row, lines)
  return lines
}
