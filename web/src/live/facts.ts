// What the events say about the sandbox as a whole: figures of its worker, files that are different, commands that ran.
// No React inside.

import { array, field, number, text } from './fields'
import type { Folding } from './fold'
import type { LogEvent } from './log'
import { isHeartbeat, type Row, type ToolRow } from './rows'

export type Facts = {
  turn: number | undefined
  memoryBytes: number | undefined
  processes: number | undefined
  /** Cores in use between the last two heartbeats. */
  cores: number | undefined
  /** Between the last two heartbeats. */
  beatMs: number | undefined
  /** The end as the agent told it. */
  outcome: LogEvent | undefined
}

const UNKNOWN: Facts = {
  turn: undefined,
  memoryBytes: undefined,
  processes: undefined,
  cores: undefined,
  beatMs: undefined,
  outcome: undefined,
}

export function foldFacts(): Folding<Facts> {
  let facts = UNKNOWN
  let beat: LogEvent | undefined
  return {
    add: (event) => {
      if (isEnd(event.type)) facts = { ...facts, outcome: event }
      // A helper counts its own turns.
      const turn = text(event.data, 'parent_tool_use_id') === undefined ? number(event.data, 'turn') : undefined
      if (turn !== undefined && turn !== facts.turn) facts = { ...facts, turn }
      if (!isHeartbeat(event.type)) return
      facts = {
        ...facts,
        memoryBytes: number(event.data, 'memory_bytes') ?? facts.memoryBytes,
        processes: number(event.data, 'processes') ?? facts.processes,
        cores: beat && coresBetween(beat, event),
        beatMs: beat && Date.parse(event.at) - Date.parse(beat.at),
      }
      beat = event
    },
    view: () => facts,
  }
}

function isEnd(type: string): boolean {
  return type === 'agent.completed' || type === 'agent.failed' || type === 'continuous.completed'
}

function coresBetween(before: LogEvent, after: LogEvent): number | undefined {
  const [from, to] = [number(before.data, 'cpu_seconds'), number(after.data, 'cpu_seconds')]
  const seconds = (Date.parse(after.at) - Date.parse(before.at)) / 1000
  // Less than before means that the worker began anew.
  return from === undefined || to === undefined || to < from || seconds <= 0 ? undefined : (to - from) / seconds
}

export type ChangedFile = {
  path: string
  added: number
  removed: number
  /** The last that was said of it. */
  change: string
  /** Newest last. */
  edits: LogEvent[]
}

/** In the order of their names. A file that was moved keeps its edits under its new name. */
export function foldFiles(): Folding<readonly ChangedFile[]> {
  let shown: readonly ChangedFile[] = []
  let files: ChangedFile[] | undefined
  return {
    add: (event) => {
      const path = event.type === 'agent.file_edited' ? text(event.data, 'file_path') : undefined
      if (path === undefined) return
      files ??= [...shown]
      const from = text(event.data, 'previous_path')
      const moved = from === undefined || from === path ? undefined : takeOut(files, from)
      const index = indexOf(files, path)
      const known = files[index]?.path === path ? files[index] : undefined
      files.splice(index, known ? 1 : 0, changed(known ?? moved, path, event))
    },
    view: () => {
      shown = files ?? shown
      files = undefined
      return shown
    },
  }
}

function changed(before: ChangedFile | undefined, path: string, event: LogEvent): ChangedFile {
  // One list for all states of a file: it only grows, and copying it would cost more with every edit.
  const edits = before?.edits ?? []
  edits.push(event)
  return {
    path,
    added: (before?.added ?? 0) + (number(event.data, 'lines_added') ?? 0),
    removed: (before?.removed ?? 0) + (number(event.data, 'lines_removed') ?? 0),
    change: text(event.data, 'change_type') ?? 'modified',
    edits,
  }
}

function takeOut(files: ChangedFile[], path: string): ChangedFile | undefined {
  const index = indexOf(files, path)
  return files[index]?.path === path ? files.splice(index, 1)[0] : undefined
}

/** Where the file is, or belongs. */
function indexOf(files: readonly ChangedFile[], path: string): number {
  let [low, high] = [0, files.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((files[middle]?.path ?? '') < path) low = middle + 1
    else high = middle
  }
  return low
}

/** Calls that ran a command, those of helpers too, in the order they began. */
export function commandsOf(rows: readonly Row[]): ToolRow[] {
  return rows.flatMap((row) => {
    if (row.kind !== 'tool') return []
    const below = commandsOf(row.children)
    return commandOf(row) === undefined ? below : [row, ...below]
  })
}

/** The command as a person would type it. */
export function commandOf(row: ToolRow): string | undefined {
  const input = field(row.use?.data, 'input') ?? field(row.done?.data, 'tool_input')
  const asked = text(input, 'command')
  if (asked !== undefined) return asked
  const argv = array(row.started?.data, 'argv').filter((word) => typeof word === 'string')
  if (argv.length === 0) return undefined
  const isShell = argv.length === 3 && /(?:^|\/)(?:ba|da|z)?sh$/.test(argv[0] ?? '') && /^-l?c$/.test(argv[1] ?? '')
  return isShell ? argv[2] : argv.join(' ')
}
