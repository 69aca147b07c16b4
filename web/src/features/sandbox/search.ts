// What the page of a sandbox keeps in its address.

import type { Row } from '../../live/rows'

export const TABS = ['activity', 'terminal', 'files', 'details'] as const
export type Tab = (typeof TABS)[number]

export const KINDS = ['messages', 'tools', 'files', 'guardian'] as const
export type Kind = (typeof KINDS)[number]

export type SandboxSearch = {
  tab?: Tab | undefined
  kinds?: Kind | undefined
  /** The file whose diff is open. */
  file?: string | undefined
  /** The event that is pointed at, by its `seq`. */
  event?: number | undefined
  /** Shown is the state right after this event. */
  at?: number | undefined
}

export function asSandboxSearch(search: Record<string, unknown>): SandboxSearch {
  const tab = TABS.find((one) => one === search.tab)
  const kinds = KINDS.find((one) => one === search.kinds)
  const event = asSeq(search.event)
  const at = asSeq(search.at)
  return {
    ...(tab && { tab }),
    ...(kinds && { kinds }),
    ...((typeof search.file === 'string' || typeof search.file === 'number') && { file: String(search.file) }),
    ...(event !== undefined && { event }),
    ...(at !== undefined && { at }),
  }
}

function asSeq(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : undefined
}

const SPEECH = ['agent.user_message', 'agent.message_injected', 'agent.interrupted', 'agent.waiting', 'agent.result']

/** What Guardian and Conductor say of a sandbox. */
export function isOfSupervision(type: string): boolean {
  return type.startsWith('guardian.') || type.startsWith('conductor.')
}

/** A helper's call stays while anything below it fits. */
export function isOfKind(row: Row, kind: Kind | undefined): boolean {
  if (kind === undefined) return true
  if (row.kind === 'tool' && row.children.some((child) => isOfKind(child, kind))) return true
  switch (kind) {
    case 'messages':
      return row.kind === 'message' || (row.kind === 'event' && SPEECH.includes(row.event.type))
    case 'tools':
      return row.kind === 'tool' || (row.kind === 'event' && row.event.type.startsWith('check.'))
    case 'files':
      return row.kind === 'edit'
    case 'guardian':
      return row.kind === 'event' && isOfSupervision(row.event.type)
    default:
      return kind satisfies never
  }
}
