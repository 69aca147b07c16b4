import { expect, test } from 'vitest'
import { EMPTY, newTask } from './newTask'

test('what is left empty is not sent', () => {
  const task = newTask({ ...EMPTY, project: 'prj-1', what: ' Fix the parser \n\nIt fails on "x". ' })
  expect(task).toEqual({
    project_id: 'prj-1',
    title: 'Fix the parser',
    description: 'Fix the parser \n\nIt fails on "x".',
    execution_config: {},
  })
})

test('a task that is to start from a place of its own waits for the sandbox that is told where', () => {
  expect(newTask({ ...EMPTY, what: 'x', base: ' trunk ' }).execution_config).toEqual({ autonomous: false })
})

test('limits are numbers, time is minutes, and nonsense is left to the server to refuse', () => {
  const draft = { ...EMPTY, project: 'p', what: 'x', model: ' scripted/binomial ', mode: 'exploration' }
  expect(newTask({ ...draft, turns: '30', budget: '1.5', minutes: '2.5' }).execution_config).toEqual({
    model: 'scripted/binomial',
    mode: 'exploration',
    max_turns: 30,
    budget_usd: 1.5,
    wall_clock_seconds: 150,
  })
  expect(newTask({ ...draft, turns: 'many', minutes: 'soon' }).execution_config).toMatchObject({
    max_turns: 'many',
    wall_clock_seconds: 'soon',
  })
})

test('a first line that is too long for a title is cut there and kept in the text', () => {
  const task = newTask({ ...EMPTY, what: 'x'.repeat(600) })
  expect([task.title.length, task.description?.length]).toEqual([500, 600])
})
