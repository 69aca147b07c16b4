// What supervision's words mean, in words for people.

import type { AnomalySeverity, FindingKind, FindingSeverity, Intervention, InterventionState, LiveEvent } from '../../api/types'
import type { Tone } from './Badge'

export const KIND_WORDS: Record<FindingKind, string> = {
  repeated_action: 'goes in circles',
  alternating_actions: 'goes back and forth',
  same_error: 'same error again',
  edit_undo: 'edits and undoes',
  no_progress: 'no progress',
  drift: 'works elsewhere',
  ignored_instruction: 'ignores what it was told',
  unanswered_question: 'question unanswered',
  forbidden_command: 'forbidden command',
  test_weakening: 'weakens tests',
  budget_burn: 'spends without progress',
  runaway_subagents: 'too many helpers',
  false_claim: 'claims what is not so',
  misaligned: 'off its course',
}

export const DO_WORDS: Record<Intervention, string> = {
  note: 'note',
  nudge: 'tell the agent',
  ask: 'ask a person',
  interrupt: 'interrupt the agent',
  pause: 'pause the agent',
  terminate: 'end the sandbox',
}

export const SEVERITY_TONES: Record<FindingSeverity | AnomalySeverity, Tone> = { notice: 'muted', warning: 'warn', error: 'bad', critical: 'bad' }

export const STATE_WORDS: Record<InterventionState, [Tone, string]> = {
  recorded: ['muted', 'noted'],
  suggested: ['warn', 'waits for you'],
  sent: ['run', 'sent'],
  delivered: ['run', 'delivered'],
  injected: ['ok', 'before the agent'],
  acknowledged: ['ok', 'acted on'],
  done: ['ok', 'done'],
  dismissed: ['muted', 'dismissed'],
  expired: ['muted', 'came too late'],
  failed: ['bad', 'failed'],
}

/** A number as people read it: no more places than tell something. */
export function figure(value: number): string {
  if (Number.isInteger(value)) return String(value)
  return Math.abs(value) >= 100 ? String(Math.round(value)) : value.toFixed(2).replace(/\.?0+$/, '')
}

export function isBeat(event: LiveEvent): boolean {
  return event.event_type.endsWith('heartbeat')
}
