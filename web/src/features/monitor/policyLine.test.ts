import { expect, test } from 'vitest'
import { lineOf } from './policyLine'

const TEXT = `steering: on
thresholds:
  same_error: { times: 0 }
rules:
  - on: drift
    do: nudge
  - on: same_error
    do: ask
    text: what
`

test.each([
  ['policy text is not as it should be: unknown field `rulez` at line 2, column 1', 2],
  ['policy text, thresholds.same_error.times: takes 2 to 1000, not 0', 3],
  ['policy text, rules[0].text: a nudge needs a text', 5],
  ['policy text, rules[1].text: is too long', 9],
  ['policy text, forbidden_commands[0]: "a | | b" lacks a command', undefined],
  ['the store is busy', undefined],
])('%s', (refusal, line) => {
  expect(lineOf(refusal, TEXT)).toBe(line)
})
