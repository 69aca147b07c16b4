import { render, screen } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { session } from '../../api/session'
import { resumeSession, signOut } from '../../api/sign'
import { SignIn } from './SignIn'

afterEach(() => session.end())

function serve(response: Response | Error) {
  const fetched = vi.fn<typeof fetch>(async () => {
    if (response instanceof Error) throw response
    return response
  })
  vi.stubGlobal('fetch', fetched)
  return fetched
}

async function signInWith(response: Response | Error) {
  const fetched = serve(response)
  const onDone = vi.fn<() => void>()
  render(<SignIn onDone={onDone} />)
  await userEvent.type(screen.getByLabelText('Operator token'), ' omoi_op_abc ')
  await userEvent.click(screen.getByRole('button', { name: 'Sign in' }))
  return { fetched, onDone }
}

const problem = (status: number, detail: string) => Response.json({ status, title: '', code: 'c', detail }, { status })
const ada = { name: 'ada', role: 'admin' } as const

describe('signing in', () => {
  test('shows the token once, to our own server, and keeps it nowhere', async () => {
    const { fetched, onDone } = await signInWith(Response.json(ada, { status: 201 }))
    expect(onDone).toHaveBeenCalledOnce()
    expect(fetched).toHaveBeenCalledOnce()
    const [[request]] = fetched.mock.calls as [[Request]]
    expect([request.method, request.url]).toEqual(['POST', `${location.origin}/api/v1/session`])
    expect([request.credentials, request.headers.get('x-omoi-csrf')]).toEqual(['same-origin', '1'])
    expect(await request.json()).toEqual({ token: 'omoi_op_abc' })
    expect(session.get()).toEqual(ada)
    const stored = [sessionStorage, localStorage].flatMap((storage) => Object.values({ ...storage }))
    expect(JSON.stringify(stored)).not.toContain('omoi_op_abc')
  })

  test.each([
    ['an unknown token', problem(401, 'x'), 'The server does not know this token, or it has ended.'],
    ['a sandbox’s token', problem(403, 'the pages need an operator’s'), /the pages need an operator/],
    ['too many attempts', problem(429, 'wait a moment'), 'wait a moment'],
    ['no answer', new TypeError('failed to fetch'), /did not answer/],
  ])('with %s says what is wrong', async (_case, response, words) => {
    const { onDone } = await signInWith(response)
    const alert = await screen.findByRole('alert')
    expect(alert.textContent).toMatch(words)
    expect([onDone.mock.calls.length, session.get()]).toEqual([0, null])
  })
})

describe('a browser that comes back', () => {
  test('is signed in if its cookie is good', async () => {
    serve(Response.json(ada))
    expect([await resumeSession(), session.get()]).toEqual([true, ada])
  })

  test('is not if it has ended, and nobody knows while the server does not answer', async () => {
    serve(problem(401, 'the session has ended'))
    expect([await resumeSession(), session.get()]).toEqual([false, null])
    serve(new TypeError('failed to fetch'))
    await expect(resumeSession()).rejects.toThrow(/did not answer/)
  })
})

describe('signing out', () => {
  test('ends the session at the server, and only then here', async () => {
    session.begin(ada)
    serve(problem(503, 'later'))
    await expect(signOut()).rejects.toThrow(/did not sign you out/)
    expect(session.get()).toEqual(ada)
    const fetched = serve(new Response(null, { status: 204 }))
    await signOut()
    const [[request]] = fetched.mock.calls as [[Request]]
    expect([request.method, session.get()]).toEqual(['DELETE', null])
  })
})
