import { expect, test } from 'vitest'
import { Problem } from './problem'
import { errorsOf, fieldOf } from './refusal'

const FIELDS = ['title', 'max_turns', 'setup', 'model', 'budget_usd'] as const
const refused = (detail: string, status = 422) => new Problem(status, 'validation_failed', detail)

test.each([
  ['title must not be empty', 'title'],
  ['execution_config.max_turns is 0; it must be a whole number from 1 to 1000000', 'max_turns'],
  ['settings.setup must be a shell command of at most 20000 bytes', 'setup'],
  ['settings.agent.model: "" is empty or holds control characters', 'model'],
  ['budget_usd is "x"; it must be an amount in USD, 0 for no limit', 'budget_usd'],
  ['missing field `title`', undefined],
  ['The title is odd', undefined],
])('%s', (detail, field) => {
  expect(fieldOf(refused(detail), FIELDS)).toBe(field)
})

test('a refusal is shown once, at its field or above the form', () => {
  const atField = errorsOf(refused('title must not be empty'), FIELDS)
  expect([atField.at('title'), atField.at('model'), atField.rest]).toEqual(['title must not be empty', undefined, undefined])
  const conflict = refused('title is taken', 409)
  expect(errorsOf(conflict, FIELDS).rest).toBe(conflict)
})
