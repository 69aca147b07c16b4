import { screen, within } from '@testing-library/react'
import { expect, test } from 'vitest'
import { serve, showPage } from '../../../test/page'
import { Coverage } from './Coverage'

const task = (key: string, more: object) => ({ key, task_id: null, status: null, commit: null, checks: [], ...more })

test('each requirement stands against each task, with commit and checks', async () => {
  const done = { task_id: 'task-10', status: 'completed', commit: '3cf87ef0c48a' }
  const rows = [
    {
      requirement: 'REQ-1', title: 'first', status: 'proven',
      tasks: [task('TSK-10', { ...done, checks: [{ name: 'tests', passed: true }, { name: 'lint', passed: false }] })],
    },
    { requirement: 'REQ-2', title: 'second', status: 'done', tasks: [task('TSK-10', done), task('TSK-9', {})] },
    { requirement: 'REQ-3', title: 'third', status: 'uncovered', tasks: [] },
  ]
  serve(({ path }) => (path === '/specs/spec-1/coverage' ? { spec_id: 'spec-1', proven_percent: 33, rows } : undefined))
  showPage(() => <Coverage id="spec-1" />)
  expect(await screen.findByText('33 % of 3 proven')).toBeTruthy()
  const table = within(screen.getByRole('table'))
  expect(table.getAllByRole('columnheader').map((head) => head.textContent)).toEqual(['Requirement', 'Is', 'TSK-9', 'TSK-10completed'])
  const cells = table.getAllByRole('row').slice(1).map((row) => within(row).getAllByRole('cell').map((cell) => cell.textContent))
  expect(cells).toEqual([
    ['proven', '–', '3cf87ef0tests passedlint failed'],
    ['done, unproven', 'planned', '3cf87ef0no check ran'],
    ['uncovered', '–', '–'],
  ])
})

test('nothing to cover says what comes first', async () => {
  serve(() => ({ spec_id: 'spec-1', proven_percent: 0, rows: [] }))
  showPage(() => <Coverage id="spec-1" />)
  expect(await screen.findByText(/requirements and tasks come first/)).toBeTruthy()
})
