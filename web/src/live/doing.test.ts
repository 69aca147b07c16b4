import { expect, test } from 'vitest'
import { doing } from './doing'

const AT = '2026-11-16T09:00:00Z'

test.each([
  ['agent.tool_use', { tool: 'Bash', input: { command: 'cargo test\n--all' } }, 'Bash cargo test --all'],
  ['agent.tool_use', { tool: 'Grep', input: { pattern: 'x', path: 'src' } }, 'Grep src'],
  ['agent.tool_use', { tool: 'Odd', input: 7 }, 'Odd'],
  ['agent.message', { content: 'It is \u001b[31mright\u001b[0m.\u202e' }, 'It is right.⟨U+202E⟩'],
  ['agent.waiting', {}, 'waits for you'],
  ['command.started', { argv: ['ls', '-l'] }, '$ ls -l'],
  ['agent.heartbeat', { status: 'running' }, undefined],
  ['guardian.nudge', null, undefined],
])('%s %j', (type, data, words) => {
  expect(doing(type, data, AT)?.words).toBe(words)
})

test('only one that waits, waits', () => {
  expect(doing('agent.waiting', { message: 'keep it?' }, AT)).toEqual({ words: 'keep it?', at: AT, waits: true })
  expect(doing('agent.thinking', {}, AT)?.waits).toBe(false)
})
