import { screen, waitFor, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { session } from '../../api/session'
import type { Role } from '../../api/types'
import { refused, serve, showPage, type Asked } from '../../test/page'
import { recall, remember } from '../../ui/remembered'
import { SettingsPage } from './SettingsPage'
import { endOf } from './Tokens'

let asked: Asked[]

function answer({ method, path }: Asked): unknown {
  if (path === '/whoami') return { kind: 'operator', name: 'ada\u202e', role: 'admin' }
  if (path !== '/tokens' && path !== '/tokens/tok-1') return undefined
  if (method === 'POST') return Response.json({ id: 'tok-2', name: 'robot', role: 'viewer', created_at: '2026-11-16T09:00:00Z', secret: 'omoi_op_secret' }, { status: 201 })
  return { items: [{ id: 'tok-1', name: 'old', role: 'operator', created_at: '2026-11-16T09:00:00Z' }] }
}

const show = (section: string, role: Role = 'admin') => showPage(() => <SettingsPage section={section} />, role)

beforeEach(() => {
  asked = serve(answer).asked
})

afterEach(() => {
  session.end()
  for (const name of ['theme', 'keys', 'diff']) remember(name, null)
})

test('the profile says who one is and what that allows', async () => {
  show('profile')
  expect(await screen.findByText('ada⟨U+202E⟩')).toBeTruthy()
  expect(screen.getByText(/^admin: may do everything/)).toBeTruthy()
})

test('a section that does not exist says so', async () => {
  show('colour')
  expect(await screen.findByText('There is no such section.')).toBeTruthy()
})

describe('tokens', () => {
  test('are made with a role and an end, and shown once', async () => {
    show('tokens')
    await userEvent.type(await screen.findByLabelText('Name'), 'robot')
    await userEvent.selectOptions(screen.getByLabelText('Role'), 'viewer')
    await userEvent.selectOptions(screen.getByLabelText('Ends after'), '30 days')
    await userEvent.click(screen.getByRole('button', { name: 'Make a token' }))
    const dialog = await screen.findByRole('dialog', { name: 'The token, this once' })
    expect(within(dialog).getByText('omoi_op_secret')).toBeTruthy()
    const { name, role, expires_at } = (asked.find(({ method }) => method === 'POST')?.body ?? {}) as Record<string, string>
    const days = (Date.parse(expires_at ?? '') - Date.now()) / 86_400_000
    expect([name, role, Math.round(days)]).toEqual(['robot', 'viewer', 30])
    await userEvent.click(within(dialog).getByRole('button', { name: 'Close' }))
    expect(screen.queryByText('omoi_op_secret')).toBeNull()
  })

  test('that never end have no end', async () => {
    show('tokens')
    await userEvent.type(await screen.findByLabelText('Name'), 'robot')
    await userEvent.selectOptions(screen.getByLabelText('Ends after'), 'never')
    await userEvent.click(screen.getByRole('button', { name: 'Make a token' }))
    await waitFor(() => expect(asked.find(({ method }) => method === 'POST')?.body).toEqual({ name: 'robot', role: 'operator' }))
  })

  test('show a refusal at its field and keep what was typed', async () => {
    serve((call) => (call.method === 'POST' ? refused(422, 'validation_failed', 'name must be shorter') : answer(call)))
    show('tokens')
    await userEvent.type(await screen.findByLabelText('Name'), 'robot')
    await userEvent.click(screen.getByRole('button', { name: 'Make a token' }))
    expect(await screen.findByText('name must be shorter')).toBeTruthy()
    expect(screen.getByLabelText<HTMLInputElement>('Name').value).toBe('robot')
  })

  test('are revoked only when that is confirmed', async () => {
    show('tokens')
    await userEvent.click(await screen.findByRole('button', { name: 'Revoke old' }))
    expect(asked.some(({ method }) => method === 'DELETE')).toBe(false)
    await userEvent.click(within(screen.getByRole('dialog')).getByRole('button', { name: 'Revoke' }))
    await waitFor(() => expect(asked.find(({ method }) => method === 'DELETE')?.path).toBe('/tokens/tok-1'))
  })

  test('are not asked for by one who may not see them', async () => {
    show('tokens', 'operator')
    expect(await screen.findByText('Tokens take the role admin.')).toBeTruthy()
    expect(asked).toEqual([])
  })

  test('say how they end', () => {
    const now = new Date('2026-11-16T09:00:00Z')
    expect(endOf({}, now)).toBe('never')
    expect(endOf({ expires_at: '2026-11-15T09:00:00Z' }, now)).toMatch(/^ended /)
    expect(endOf({ expires_at: '2027-11-15T09:00:00Z', revoked_at: '2026-11-16T08:00:00Z' }, now)).toMatch(/^revoked /)
  })
})

test('appearance is chosen and remembered', async () => {
  show('appearance')
  await userEvent.click(await screen.findByLabelText('Light'))
  expect([document.documentElement.dataset.theme, recall('theme')]).toEqual(['light', 'light'])
  await userEvent.click(screen.getByLabelText('Dark'))
  expect(document.documentElement.dataset.theme).toBe('dark')
  await userEvent.click(screen.getByLabelText('As the system has it'))
  expect(recall('theme')).toBeNull()
  await userEvent.click(screen.getByLabelText(/^Off/))
  expect(recall('keys')).toBe('off')
})
