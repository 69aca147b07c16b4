// Which field of a form a refusal is about.

import type { Problem } from './problem'

/** The server names the field first, as in `settings.setup must be …`; a form knows its fields by the last word. */
export function fieldOf(problem: Problem | undefined, fields: readonly string[]): string | undefined {
  if (!problem || problem.status !== 422) return undefined
  const path = /^[a-z_]+(?:\.[a-z_]+)*/.exec(problem.message)?.[0].split('.') ?? []
  return path.toReversed().find((word) => fields.includes(word))
}

/** The refusal in words, at the field that it is about or, under no field, above the form. */
export function errorsOf<F extends string>(problem: Problem | undefined, fields: readonly F[]) {
  const field = fieldOf(problem, fields)
  return {
    at: (name: F) => (field === name ? problem?.message : undefined),
    rest: field === undefined ? problem : undefined,
  }
}
