// What a list of events shows, made from the events once and added to as they come: a call with its output and result
// is one row, what a helper does hangs below the call that asked it, heartbeats in a row are one, and holes are named.
// A row that did not change stays the same object, so that nothing is rendered for it. No React inside.

import { field, number, text } from './fields'
import { Seen } from './fold'
import type { LogEvent } from './log'

type Common = { key: string; seq: number; at: string }

export type MessageRow = Common & { kind: 'message'; event: LogEvent; call: LogEvent | undefined }

/** A call of a tool, or a command of the worker, from its beginning to its end. Any part may not be there (yet). */
export type ToolRow = Common & {
  kind: 'tool'
  id: string
  use?: LogEvent
  started?: LogEvent
  output: Output
  ended?: LogEvent
  result?: LogEvent
  done?: LogEvent
  call?: LogEvent
  children: readonly Row[]
}

/** The last of what a command wrote. */
export type Output = { text: string; isCut: boolean; droppedBytes: number }

export type Row =
  | MessageRow
  | ToolRow
  | (Common & { kind: 'edit'; event: LogEvent })
  | (Common & { kind: 'event'; event: LogEvent })
  | (Common & { kind: 'beats'; count: number; first: LogEvent; last: LogEvent })
  | (Common & { kind: 'hole'; count: number })

/** More of a command's output is not kept in its row; the events have it. */
export const OUTPUT_CHARS_MAX = 100_000
/** Helpers of helpers: deeper ones are shown with those above them. */
const DEPTH_MAX = 4
const CALLS_WAITING_MAX = 16
const NO_OUTPUT: Output = { text: '', isCut: false, droppedBytes: 0 }

/** Where a call's row is, so that what comes later finds it. */
type Slot = { list: Row[]; index: number; parent: Slot | undefined; depth: number; below: Row[] }

export class Rows {
  #rows: Row[] = []
  #slots = new Map<string, Slot>()
  /** Calls of a model whose answer has not been seen yet. */
  #calls: LogEvent[] = []
  /** Calls that were matched with an answer, by helper and turn, until something of the answer is shown. */
  #answers = new Map<string, LogEvent>()
  readonly #seen = new Seen()
  #last: LogEvent | undefined

  /** All rows of these events, oldest first. Events at the end cost only themselves; any other change is worked out anew. */
  update(events: readonly LogEvent[]): readonly Row[] {
    const { isAnew, fresh } = this.#seen.next(events)
    const before = isAnew ? this.#rows : undefined
    if (before) this.#forget()
    for (const event of fresh) this.#add(event)
    if (before) keepSame(before, this.#rows)
    return [...this.#rows]
  }

  #forget() {
    this.#rows = []
    this.#slots = new Map()
    this.#calls = []
    this.#answers = new Map()
    this.#last = undefined
  }

  #add(event: LogEvent) {
    const missing = this.#last ? event.seq - this.#last.seq - 1 : 0
    if (this.#last && missing > 0) {
      this.#rows.push({ kind: 'hole', count: missing, ...common(this.#last, 'hole') })
    }
    this.#last = event
    if (isHeartbeat(event.type)) return this.#beat(event)
    switch (event.type) {
      case 'model.call':
        return this.#called(event)
      case 'agent.assistant_message':
        return this.#answered(event)
      case 'agent.message':
      case 'agent.text_output':
      case 'agent.response':
        return this.#push(event, { kind: 'message', event, call: this.#takeAnswer(event), ...common(event) })
      case 'agent.tool_use':
      case 'agent.subagent_invoked':
      case 'agent.skill_invoked':
        return this.#used(event)
      case 'agent.tool_result':
      case 'agent.user_tool_result':
        return this.#change(event, text(event.data, 'tool_use_id'), () => ({ result: event }))
      case 'agent.tool_completed':
        // What a helper or a skill says of its end says more.
        return this.#change(event, text(event.data, 'tool_use_id'), (row) => ({ done: row.done ?? event }))
      case 'agent.subagent_completed':
      case 'agent.skill_completed':
        return this.#change(event, text(event.data, 'tool_use_id'), () => ({ done: event }))
      case 'command.started':
        return this.#change(event, text(event.data, 'command_id'), () => ({ started: event }))
      case 'command.output':
        return this.#change(event, text(event.data, 'command_id'), (row) => ({ output: longer(row.output, event) }))
      case 'command.completed':
        return this.#change(event, text(event.data, 'command_id'), () => ({ ended: event }))
      case 'agent.file_edited':
        return this.#push(event, { kind: 'edit', event, ...common(event) })
      default:
        return this.#push(event, { kind: 'event', event, ...common(event) })
    }
  }

  #beat(event: LogEvent) {
    const row = this.#rows.at(-1)
    if (row?.kind === 'beats') this.#rows[this.#rows.length - 1] = { ...row, count: row.count + 1, last: event }
    else this.#rows.push({ kind: 'beats', count: 1, first: event, last: event, ...common(event, 'beats') })
  }

  /** A call that went well is told with its answer; any other is told for itself. */
  #called(event: LogEvent) {
    const state = text(event.data, 'state')
    const isWell = state === undefined || state === 'done'
    if (isWell) this.#calls.push(event)
    const tooOld = isWell ? this.#calls.length > CALLS_WAITING_MAX && this.#calls.shift() : event
    if (tooOld) this.#push(tooOld, { kind: 'event', event: tooOld, ...common(tooOld) })
  }

  /** With helpers at work several calls may wait; the counts tell which one this answer belongs to. */
  #answered(event: LogEvent) {
    const usage = field(event.data, 'usage')
    const isOurs = (call: LogEvent) =>
      number(call.data, 'output_tokens') === number(usage, 'output_tokens') &&
      number(call.data, 'input_tokens') === number(usage, 'input_tokens')
    const index = Math.max(0, this.#calls.findIndex(isOurs))
    const [call] = this.#calls.splice(index, 1)
    if (call) this.#answers.set(answerKey(event), call)
  }

  #takeAnswer(event: LogEvent): LogEvent | undefined {
    const key = answerKey(event)
    const call = this.#answers.get(key)
    this.#answers.delete(key)
    return call
  }

  #used(event: LogEvent) {
    const id = text(event.data, 'tool_use_id')
    const slot = id === undefined ? undefined : this.#slots.get(id)
    const row = slot?.list[slot.index]
    const isSameCall = row?.kind === 'tool' && (row.use === undefined || row.use.type === 'agent.tool_use') && !row.done
    if (slot && isSameCall && row.use?.type !== event.type) return replace(slot, { ...row, use: event })
    const call = this.#takeAnswer(event)
    return this.#begin(event, id, { use: event, ...(call && { call }) })
  }

  /** Adds to the row of a call, or begins one when its beginning is not there. */
  #change(event: LogEvent, id: string | undefined, change: (row: ToolRow) => Partial<ToolRow>) {
    const slot = id === undefined ? undefined : this.#slots.get(id)
    const row = slot?.list[slot.index]
    if (slot && row?.kind === 'tool') return replace(slot, { ...row, ...change(row) })
    if (id === undefined) return this.#push(event, { kind: 'event', event, ...common(event) })
    const empty: ToolRow = { kind: 'tool', id, output: NO_OUTPUT, children: [], ...common(event) }
    return this.#begin(event, id, change(empty))
  }

  #begin(event: LogEvent, id: string | undefined, parts: Partial<ToolRow>) {
    const row: ToolRow = { kind: 'tool', id: id ?? '', output: NO_OUTPUT, children: [], ...parts, ...common(event) }
    const slot = this.#push(event, row)
    if (id !== undefined) this.#slots.set(id, slot)
  }

  /** Below the call it belongs to, else at the end. */
  #push(event: LogEvent, row: Row): Slot {
    const parentId = text(event.data, 'parent_tool_use_id')
    const own = text(event.data, 'tool_use_id')
    const asked = parentId === undefined ? undefined : this.#slots.get(parentId)
    // A file stands beside the call that changed it.
    const beside = row.kind === 'edit' && !asked && own !== undefined ? this.#slots.get(own)?.parent : undefined
    const parent = within(asked ?? beside)
    const list = parent ? parent.below : this.#rows
    list.push(row)
    const slot = { list, index: list.length - 1, parent, depth: parent ? parent.depth + 1 : 0, below: [] }
    if (parent) grow(parent)
    return slot
  }
}

export function isHeartbeat(type: string): boolean {
  return type === 'agent.heartbeat' || type === 'spec.heartbeat' || type === 'heartbeat'
}

function common(event: LogEvent, kind = 'event'): Common {
  return { key: `${kind}-${event.seq}`, seq: event.seq, at: event.at }
}

function answerKey(event: LogEvent): string {
  return `${number(event.data, 'turn') ?? ''} ${text(event.data, 'parent_tool_use_id') ?? ''}`
}

function within(slot: Slot | undefined): Slot | undefined {
  return slot && slot.depth >= DEPTH_MAX ? slot.parent : slot
}

function replace(slot: Slot, row: Row) {
  slot.list[slot.index] = row
  if (slot.parent) grow(slot.parent)
}

/** What happened below a row is a change of that row, and of those above it. */
function grow(slot: Slot) {
  for (let at: Slot | undefined = slot; at; at = at.parent) {
    const row = at.list[at.index]
    if (row?.kind === 'tool') at.list[at.index] = { ...row, children: [...at.below] }
  }
}

function longer(output: Output, event: LogEvent): Output {
  const piece = field(event.data, 'text')
  const whole = output.text + (typeof piece === 'string' ? piece : '')
  const dropped = output.droppedBytes + (number(event.data, 'dropped_bytes') ?? 0)
  const isTooLong = whole.length > OUTPUT_CHARS_MAX
  return { text: isTooLong ? tail(whole) : whole, isCut: output.isCut || isTooLong, droppedBytes: dropped }
}

/** Cut to half, at a line, so that it is not cut again with every piece. */
function tail(whole: string): string {
  const rest = whole.slice(-OUTPUT_CHARS_MAX / 2)
  return rest.slice(rest.indexOf('\n') + 1)
}

/** Puts the earlier objects back where nothing is different. */
function keepSame(before: readonly Row[], rows: Row[]) {
  const known = new Map(before.map((row) => [row.key, row]))
  for (const [index, row] of rows.entries()) {
    const old = known.get(row.key)
    if (old && isSame(old, row)) rows[index] = old
  }
}

function isSame(a: Row, b: Row): boolean {
  const [x, y] = [a as Record<string, unknown>, b as Record<string, unknown>]
  const names = new Set([...Object.keys(x), ...Object.keys(y)])
  return [...names].every((name) => {
    if (name === 'output') return (x.output as Output).text === (y.output as Output).text
    if (name !== 'children') return x[name] === y[name]
    const [c, d] = [x.children as readonly Row[], y.children as readonly Row[]]
    return c.length === d.length && c.every((child, index) => d[index] !== undefined && isSame(child, d[index]))
  })
}
