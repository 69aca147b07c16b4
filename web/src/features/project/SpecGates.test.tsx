import { screen, waitFor } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { expect, test } from 'vitest'
import type { Role, SpecPhase } from '../../api/types'
import { refused, serve, showPage } from '../../test/page'
import { SpecGates } from './SpecGates'

type Body = { gates: SpecPhase[] | null }
const USUAL: SpecPhase[] = ['requirements', 'design']

function show(gates: SpecPhase[] | null, role?: Role, refuse?: () => Response) {
  let said = gates
  const served = serve(({ method, path, body }) => {
    if (path !== '/projects/prj-1/spec-gates') return undefined
    if (method === 'PUT' && refuse) return refuse()
    if (method === 'PUT') said = (body as Body).gates
    return { gates: said, effective: said ?? USUAL }
  })
  showPage(() => <SpecGates id="prj-1" />, role)
  return served.changes
}

const save = () => screen.getByRole<HTMLButtonElement>('button', { name: 'Save the gates' })

test('a project without a choice says what counts, and begins one from that', async () => {
  const changes = show(null)
  expect(await screen.findByRole('radio', { name: 'As Omoi does: Requirements and Design', checked: true })).toBeTruthy()
  expect(save().disabled).toBe(true)
  await userEvent.click(screen.getByRole('radio', { name: 'At the phases chosen here' }))
  expect(screen.getByRole('checkbox', { name: 'Design', checked: true })).toBeTruthy()
  await userEvent.click(screen.getByRole('checkbox', { name: 'Requirements' }))
  await userEvent.click(screen.getByRole('checkbox', { name: 'Sync' }))
  await userEvent.click(save())
  await waitFor(() => expect(save().disabled).toBe(true))
  expect(changes.map(({ body }) => body)).toEqual([{ gates: ['design', 'sync'] }])
  expect(screen.getByRole('radio', { name: 'At the phases chosen here', checked: true })).toBeTruthy()
})

test('none at all is a choice, and is said to ask nobody', async () => {
  const changes = show(['design'])
  await userEvent.click(await screen.findByRole('checkbox', { name: 'Design' }))
  expect(screen.getByText(/without asking anybody/)).toBeTruthy()
  await userEvent.click(save())
  await waitFor(() => expect(changes.map(({ body }) => body)).toEqual([{ gates: [] }]))
})

test('the choice is given back', async () => {
  const changes = show(['design'])
  await userEvent.click(await screen.findByRole('radio', { name: 'As Omoi does' }))
  await userEvent.click(save())
  expect(await screen.findByRole('radio', { name: 'As Omoi does: Requirements and Design', checked: true })).toBeTruthy()
  expect(changes.map(({ body }) => body)).toEqual([{ gates: null }])
})

test('a refusal is shown, and what was ticked stays', async () => {
  show(['design'], 'operator', () => refused(503, 'database_busy', 'the database is busy'))
  await userEvent.click(await screen.findByRole('checkbox', { name: 'Tasks' }))
  await userEvent.click(save())
  expect((await screen.findByRole('alert')).textContent).toContain('the database is busy')
  expect(screen.getByRole('checkbox', { name: 'Tasks', checked: true })).toBeTruthy()
})

test('viewers see it and change nothing', async () => {
  show(['design'], 'viewer')
  expect((await screen.findByRole<HTMLInputElement>('checkbox', { name: 'Design' })).matches(':disabled')).toBe(true)
  expect(screen.queryByRole('button')).toBeNull()
})
