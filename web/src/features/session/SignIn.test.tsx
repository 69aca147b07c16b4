import { render, screen } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { session } from '../../api/session'
import { SignIn } from './SignIn'

afterEach(() => session.end())

async function signIn(response: Response | Error) {
  const fetched = vi.fn<typeof fetch>(async () => {
    if (response instanceof Error) throw response
    return response
  })
  vi.stubGlobal('fetch', fetched)
  const onDone = vi.fn<() => void>()
  render(<SignIn onDone={onDone} />)
  await userEvent.type(screen.getByLabelText('Operator token'), ' omoi_op_abc ')
  await userEvent.click(screen.getByRole('button', { name: 'Sign in' }))
  return { fetched, onDone }
}

const problem = (status: number, detail: string) => Response.json({ status, title: '', code: 'c', detail }, { status })

describe('signing in', () => {
  test('keeps a token that the server knows, for this tab', async () => {
    const { fetched, onDone } = await signIn(Response.json({ kind: 'operator', name: 'ada', role: 'admin' }))
    expect(onDone).toHaveBeenCalledOnce()
    const [[request]] = fetched.mock.calls as [[Request]]
    expect(request.headers.get('authorization')).toBe('Bearer omoi_op_abc')
    expect(session.get()).toEqual({ token: 'omoi_op_abc', name: 'ada', role: 'admin' })
    expect(sessionStorage.getItem('omoi.session')).toContain('omoi_op_abc')
    session.end()
    expect(sessionStorage.getItem('omoi.session')).toBeNull()
  })

  test.each([
    ['an unknown token', problem(401, 'x'), 'The server does not know this token, or it has ended.'],
    ['a sandbox’s token', Response.json({ kind: 'sandbox', name: 's', sandbox_id: 's' }), /the pages need an operator/],
    ['too many attempts', problem(429, 'wait a moment'), 'wait a moment'],
    ['no answer', new TypeError('failed to fetch'), /did not answer/],
  ])('with %s says what is wrong', async (_case, response, words) => {
    const { onDone } = await signIn(response)
    const alert = await screen.findByRole('alert')
    expect(alert.textContent).toMatch(words)
    expect([onDone.mock.calls.length, session.get()]).toEqual([0, null])
  })
})
