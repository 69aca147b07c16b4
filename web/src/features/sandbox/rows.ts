// What the list of events shows, made from the events: one row each, heartbeats in a row folded, holes named.
// Everything in an event's data is foreign: it may have any shape, so nothing here relies on one.

import type { LogEvent } from '../../live/log'

export type Row =
  | { kind: 'event'; key: string; event: LogEvent }
  | { kind: 'beats'; key: string; count: number; first: LogEvent; last: LogEvent }
  | { kind: 'hole'; key: string; count: number }

export function rowsOf(events: readonly LogEvent[]): Row[] {
  const rows: Row[] = []
  let before: LogEvent | undefined
  for (const event of events) {
    const missing = before ? event.seq - before.seq - 1 : 0
    if (before && missing > 0) rows.push({ kind: 'hole', key: `hole-${before.seq}`, count: missing })
    const row = rows.at(-1)
    if (!isHeartbeat(event.type)) {
      rows.push({ kind: 'event', key: `event-${event.seq}`, event })
    } else if (row?.kind === 'beats') {
      rows[rows.length - 1] = { ...row, count: row.count + 1, last: event }
    } else {
      rows.push({ kind: 'beats', key: `beats-${event.seq}`, count: 1, first: event, last: event })
    }
    before = event
  }
  return rows
}

export function isHeartbeat(type: string): boolean {
  return type === 'agent.heartbeat' || type === 'spec.heartbeat' || type === 'heartbeat'
}

export type Tone = 'plain' | 'speech' | 'tool' | 'good' | 'bad'

/** Colour means state: what failed, what was said, what is being done; the rest is grey. */
export function toneOf({ type, data }: LogEvent): Tone {
  if (/error|failed|\.lost$/.test(type) || field(data, 'is_error') === true || field(data, 'passed') === false) return 'bad'
  if (/^agent\.(message|text_output|response|user_message|message_injected)$/.test(type)) return 'speech'
  if (/^agent\.(tool|user_tool|subagent|skill|file_edited)/.test(type)) return 'tool'
  if (type.endsWith('.completed')) return 'good'
  return 'plain'
}

/** Fields that carry what an event says, the most telling first. */
const SAYING = ['content', 'error', 'message', 'summary', 'reason', 'result', 'output_preview', 'final_output', 'feedback']
/** Fields of a tool's input that tell what it does. */
const DOING = ['command', 'file_path', 'path', 'pattern', 'url', 'query', 'description', 'prompt']
/** Fields that name what an event is about. */
const NAMING = ['tool', 'file_path', 'name', 'step', 'phase', 'branch_name', 'model', 'skill_name', 'subagent_type']

/** The event in words, as far as its data has any. */
export function textOf({ data }: LogEvent): string {
  const input = field(data, 'input') ?? field(data, 'tool_input')
  const parts = [
    ...NAMING.map((name) => text(data, name)).slice(0, 3),
    DOING.map((name) => text(input, name)).find(Boolean),
    SAYING.map((name) => text(data, name)).find(Boolean),
  ]
  return [...new Set(parts.filter(Boolean))].join(' · ')
}

function field(data: unknown, name: string): unknown {
  const isObject = typeof data === 'object' && data !== null && Object.hasOwn(data, name)
  return isObject ? (data as Record<string, unknown>)[name] : undefined
}

function text(data: unknown, name: string): string | undefined {
  const value = field(data, name)
  return typeof value === 'string' && value.trim() !== '' ? value : undefined
}
