// How a task ended, read from what the server keeps of it. Whatever is absent was not told.

import type { Task } from '../../api/types'

/** The proof tells more of it. */
export type Check = { name: string; passed: boolean }

export type Outcome = {
  output: string | undefined
  branch: string | undefined
  commit: string | undefined
  turns: number | undefined
  verification: 'verified' | 'unverified' | 'disputed'
  checks: Check[]
  pullRequest: string | undefined
}

export function outcomeOf(task: Task): Outcome | undefined {
  const result = object(task.result)
  if (!result) return undefined
  const said = result.verification
  return {
    output: text(result.output),
    branch: text(result.branch_name),
    commit: text(result.commit),
    turns: typeof result.turns === 'number' ? result.turns : undefined,
    // Nothing counts as proven that does not say so.
    verification: said === 'verified' || said === 'disputed' ? said : 'unverified',
    checks: Array.isArray(result.checks) ? result.checks.flatMap((check) => checkOf(check) ?? []) : [],
    pullRequest: text(object(result.pr)?.url),
  }
}

function checkOf(value: unknown): Check | undefined {
  const check = object(value)
  if (!check) return undefined
  return {
    name: text(check.name) ?? 'check',
    passed: check.passed === true,
  }
}

function object(value: unknown): Record<string, unknown> | undefined {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
