// What the events say about the sandbox as a whole: figures of its worker, files that are different, commands that ran.
// No React inside.

import { array, field, number, text } from './fields'
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

export function factsOf(events: readonly LogEvent[]): Facts {
  const facts: Facts = {
    turn: undefined,
    memoryBytes: undefined,
    processes: undefined,
    cores: undefined,
    beatMs: undefined,
    outcome: undefined,
  }
  let beat: LogEvent | undefined
  for (let i = events.length - 1; i >= 0; i--) {
    const event = events[i]
    if (!event) continue
    if (isEnd(event.type)) facts.outcome ??= event
    // A helper counts its own turns.
    if (text(event.data, 'parent_tool_use_id') === undefined) facts.turn ??= number(event.data, 'turn')
    if (isHeartbeat(event.type)) {
      facts.memoryBytes ??= number(event.data, 'memory_bytes')
      facts.processes ??= number(event.data, 'processes')
      if (beat) {
        facts.cores ??= coresBetween(event, beat)
        facts.beatMs ??= Date.parse(beat.at) - Date.parse(event.at)
      }
      beat ??= event
    }
    if (facts.turn !== undefined && facts.beatMs !== undefined) break
  }
  return facts
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
export function filesOf(events: readonly LogEvent[]): ChangedFile[] {
  const files = new Map<string, ChangedFile>()
  for (const event of events) {
    if (event.type !== 'agent.file_edited') continue
    const path = text(event.data, 'file_path')
    if (path === undefined) continue
    const from = text(event.data, 'previous_path')
    const before = files.get(path) ?? (from === undefined ? undefined : files.get(from))
    if (from !== undefined && from !== path) files.delete(from)
    const edits = before?.edits ?? []
    edits.push(event)
    files.set(path, {
      path,
      added: (before?.added ?? 0) + (number(event.data, 'lines_added') ?? 0),
      removed: (before?.removed ?? 0) + (number(event.data, 'lines_removed') ?? 0),
      change: text(event.data, 'change_type') ?? 'modified',
      edits,
    })
  }
  return [...files.values()].toSorted((a, b) => (a.path < b.path ? -1 : 1))
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
