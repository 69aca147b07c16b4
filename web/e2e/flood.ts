// Many events of a sandbox that somebody runs elsewhere, as an agent at work would report them.

import type { Schemas } from './server'

type Event = Schemas['PostedEvent']

/** From event number `from` on: what the agent says, commands and their output, edits, heartbeats. */
export function work(from: number, count: number): Event[] {
  return Array.from({ length: count }, (_, index) => one(from + index))
}

function one(n: number): Event {
  const id = `call-${Math.floor(n / 5)}`
  const ofEvent = (event_type: string, event_data: Record<string, unknown>): Event => ({ event_type, event_data, worker_seq: n + 1 })
  switch (n % 5) {
    case 0:
      return ofEvent('agent.message', { content: `Step ${n}: I look at **part ${n}** and change what is wrong there.`, turn: n })
    case 1:
      return ofEvent('agent.tool_use', { tool: 'Bash', tool_use_id: id, input: { command: `make part-${n}` } })
    case 2:
      return ofEvent('command.output', { command_id: id, stream: 'stdout', text: `\u001b[32mok\u001b[0m part ${n}\nline two\nline three\n` })
    case 3:
      return ofEvent('agent.tool_completed', { tool: 'Bash', tool_use_id: id, exit_code: 0, duration_ms: 120 })
    default:
      return ofEvent('agent.file_edited', edit(`src/part-${n}.ts`, 8))
  }
}

/** A change of a file that takes away and adds so many lines together. */
export function edit(file_path: string, lines: number): Record<string, unknown> {
  const rows = Array.from({ length: lines / 2 }, (_, n) => `-const before${n} = ${n}\n+const after${n} = ${n} + 1\n`)
  const full_diff = `--- a/${file_path}\n+++ b/${file_path}\n@@ -1,${lines / 2} +1,${lines / 2} @@\n${rows.join('')}`
  return { file_path, change_type: 'modified', lines_added: lines / 2, lines_removed: lines / 2, full_diff, diff_preview: full_diff.slice(0, 500) }
}
