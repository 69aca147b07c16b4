// What a sandbox is doing, in one line, from one of its events. Events that say nothing about it say nothing here.

import { oneLine } from '../ui/plain'

const CHARS = 140

export type Doing = { words: string; at: string; waits: boolean }

/** Events that say what a sandbox is doing. */
export const TELLING = [
  'sandbox.spawned',
  'workspace.progress',
  'workspace.ready',
  'agent.started',
  'agent.thinking',
  'agent.message',
  'agent.tool_use',
  'agent.stream_error',
  'agent.waiting',
  'agent.message_injected',
  'agent.interrupted',
  'agent.completed',
  'check.started',
  'command.started',
] as const

export function doing(type: string, data: unknown, at: string): Doing | undefined {
  const words = told(type, typeof data === 'object' && data !== null ? (data as Record<string, unknown>) : {})
  return words === undefined ? undefined : { words: oneLine(words, CHARS), at, waits: type === 'agent.waiting' }
}

function told(type: string, data: Record<string, unknown>): string | undefined {
  const text = (key: string) => (typeof data[key] === 'string' ? data[key] : '')
  switch (type as (typeof TELLING)[number]) {
    case 'sandbox.spawned':
      return 'is there, and starts its worker'
    case 'workspace.progress':
      return text('message') || text('step')
    case 'workspace.ready':
      return 'has the repository'
    case 'agent.started':
      return text('model') ? `begins with ${text('model')}` : 'begins'
    case 'agent.thinking':
      return 'thinks'
    case 'agent.message':
      return text('content')
    case 'agent.tool_use':
      return `${text('tool')} ${argument(data.input)}`
    case 'agent.stream_error':
      return 'asks the model again'
    case 'agent.waiting':
      return text('message') || 'waits for you'
    case 'agent.message_injected':
      return 'has a message'
    case 'agent.interrupted':
      return 'was interrupted'
    case 'agent.completed':
      return 'is done'
    case 'check.started':
      return `checks ${text('name')}`
    case 'command.started':
      return Array.isArray(data.argv) ? `$ ${data.argv.join(' ')}` : undefined
    default:
      return undefined
  }
}

/** The part of a tool's input that tells most. */
function argument(input: unknown): string {
  if (typeof input !== 'object' || input === null) return ''
  const fields = input as Record<string, unknown>
  const telling = ['command', 'file_path', 'path', 'pattern', 'description', 'url'].map((key) => fields[key])
  return telling.find((value): value is string => typeof value === 'string') ?? ''
}
