// Two attempts side by side: what each came to, and where they first went different ways. No React inside.

import type { CostTotals, Sandbox, Task } from '../../../api/types'
import { foldFacts, foldFiles, type ChangedFile } from '../../../live/facts'
import { folded } from '../../../live/fold'
import { array, flag, number, text } from '../../../live/fields'
import type { LogEvent } from '../../../live/log'
import { isHeartbeat } from '../../../live/rows'

export type Run = {
  sandbox: Sandbox
  task: Task | null
  costs: CostTotals | undefined
  /** Oldest first. */
  events: readonly LogEvent[]
}

export type Check = { name: string; passed: boolean }
/** What happened, without when and how: two runs that did the same have the same. */
export type Step = { kind: string; seq: number }

export type Side = {
  outcome: string | undefined
  /** What has been proven of it; only its last attempt speaks for a task. */
  verification: string | undefined
  turns: number
  durationMs: number | undefined
  files: readonly ChangedFile[]
  added: number
  removed: number
  checks: Check[]
  tools: ReadonlyMap<string, number>
  steps: Step[]
}

export function sideOf({ sandbox, task, events }: Run): Side {
  const files = folded(foldFiles, events)
  const last = events.at(-1)
  const from = Date.parse(sandbox.created_at)
  const to = sandbox.ended_at ?? last?.at
  const own = task?.sandbox_id === sandbox.id ? task : null
  return {
    outcome: outcomeOf(folded(foldFacts, events).outcome),
    verification: text(own?.result, 'verification'),
    turns: turnsOf(events),
    durationMs: to === undefined ? undefined : Date.parse(to) - from,
    files,
    added: files.reduce((sum, file) => sum + file.added, 0),
    removed: files.reduce((sum, file) => sum + file.removed, 0),
    checks: checksOf(events, own),
    tools: toolsOf(events),
    steps: stepsOf(events),
  }
}

function outcomeOf(event: LogEvent | undefined): string | undefined {
  if (!event) return undefined
  switch (event.type) {
    case 'agent.failed':
      return said(text(event.data, 'failure_kind') ?? 'failed', text(event.data, 'error'))
    case 'continuous.completed':
      return said(text(event.data, 'stop_reason') ?? 'completed', text(event.data, 'error') ?? text(event.data, 'final_output'))
    default:
      return said('completed', text(event.data, 'final_output'))
  }
}

function said(how: string, words: string | undefined): string {
  return words === undefined ? how : `${how}: ${words}`
}

/** Answers of the model to the agent itself; a helper counts its own. */
function turnsOf(events: readonly LogEvent[]): number {
  const turns = new Set<number>()
  for (const { type, data } of events) {
    if (type !== 'agent.assistant_message' || text(data, 'parent_tool_use_id') !== undefined) continue
    const turn = number(data, 'turn')
    if (turn !== undefined) turns.add(turn)
  }
  return turns.size
}

/** The last run of each, here or, for the attempt that counts, where its commit was proven. */
function checksOf(events: readonly LogEvent[], own: Task | null): Check[] {
  const checks = new Map<string, boolean>()
  const ran = events.filter(({ type }) => type === 'check.completed').map(({ data }) => data)
  for (const check of [...ran, ...array(own?.result, 'checks')]) {
    checks.set(text(check, 'name') ?? 'check', flag(check, 'passed') === true)
  }
  return [...checks].map(([name, passed]) => ({ name, passed })).toSorted((a, b) => (a.name < b.name ? -1 : 1))
}

function toolsOf(events: readonly LogEvent[]): ReadonlyMap<string, number> {
  const tools = new Map<string, number>()
  for (const { type, data } of events) {
    if (type !== 'agent.tool_use') continue
    const tool = text(data, 'tool') ?? 'a tool without a name'
    tools.set(tool, (tools.get(tool) ?? 0) + 1)
  }
  return tools
}

/** Pieces of output and calls of the model come as they come, and say nothing about the way that was taken. */
const PASSING = new Set(['command.output', 'model.call', 'workspace.progress'])

function stepsOf(events: readonly LogEvent[]): Step[] {
  return events
    .filter(({ type }) => !isHeartbeat(type) && !PASSING.has(type))
    .map(({ type, data, seq }) => {
      const tool = type === 'agent.tool_use' ? text(data, 'tool') : undefined
      return { kind: tool === undefined ? type : `${type} ${tool}`, seq }
    })
}

export type Difference = { after: number; a: Step | undefined; b: Step | undefined }

/** The first step that is not of the same kind; none when one did what the other did, to the end. */
export function firstDifference(a: Side, b: Side): Difference | undefined {
  const longer = Math.max(a.steps.length, b.steps.length)
  for (let n = 0; n < longer; n++) {
    if (a.steps[n]?.kind !== b.steps[n]?.kind) return { after: n, a: a.steps[n], b: b.steps[n] }
  }
  return undefined
}

export type Pair<T> = { name: string; a: T | undefined; b: T | undefined }

/** Everything that either has, by name. */
export function pairsOf<T>(a: ReadonlyMap<string, T>, b: ReadonlyMap<string, T>): Pair<T>[] {
  const names = [...new Set([...a.keys(), ...b.keys()])].toSorted((x, y) => (x < y ? -1 : 1))
  return names.map((name) => ({ name, a: a.get(name), b: b.get(name) }))
}

/** How much more or less the second has; nothing where they are the same, or one is not known. */
export function more(a: number | undefined, b: number | undefined, words: (amount: number) => string): string {
  if (a === undefined || b === undefined || a === b) return ''
  const amount = words(Math.abs(b - a))
  return `${b > a ? '+' : '−'}${amount}`
}
