// Signing in and out.

import { api, ask } from './client'
import { asProblem, Problem } from './problem'
import { session } from './session'

/** Shows the token once; from then on the browser's cookie stands for it. */
export async function signIn(token: string) {
  session.begin(await ask(api.POST('/api/v1/session', { body: { token } })))
}

/** Whether the browser's cookie is still good. Throws when nobody can say. */
export async function resumeSession(): Promise<boolean> {
  if (session.get()) return true
  try {
    session.begin(await ask(api.GET('/api/v1/session')))
    return true
  } catch (error) {
    if (error instanceof Problem && error.status === 401) return false
    throw error
  }
}

/** Only the server can take the cookie back, so without its answer the person is still signed in. */
export async function signOut() {
  let answer
  try {
    answer = await api.DELETE('/api/v1/session')
  } catch (error) {
    throw asProblem(error)
  }
  if (!answer.response.ok) throw new Problem(answer.response.status, 'sign_out', 'The server did not sign you out.')
  session.end()
}
