import { useState, type FormEvent } from 'react'
import { api, ask } from '../../api/client'
import { asProblem, Problem } from '../../api/problem'
import { session } from '../../api/session'
import { Button } from '../../ui/Button'

/** Asks for an operator's token and keeps it for this tab once the server knows it. */
export function SignIn({ onDone }: { onDone: () => void }) {
  const [problem, setProblem] = useState<Problem>()
  const [isBusy, setIsBusy] = useState(false)

  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const field = new FormData(event.currentTarget).get('token')
    const token = typeof field === 'string' ? field.trim() : ''
    setIsBusy(true)
    setProblem(undefined)
    try {
      await signIn(token)
      onDone()
    } catch (error) {
      setProblem(asProblem(error))
    } finally {
      setIsBusy(false)
    }
  }

  return (
    <main className="flex min-h-dvh items-center justify-center p-4">
      {/* Were the script late, a plain GET would put the token into the address. */}
      <form
        method="post"
        onSubmit={(event) => void submit(event)}
        className="flex w-full max-w-90 flex-col gap-3 rounded-lg border border-line bg-surface p-6"
      >
        <h1 className="text-lg font-semibold">Sign in to Omoi</h1>
        {problem && (
          <p role="alert" className="untrusted rounded bg-bad-soft p-2 text-bad">
            {problem.status === 401 ? 'The server does not know this token, or it has ended.' : problem.message}
          </p>
        )}
        <label htmlFor="token" className="font-medium">
          Operator token
        </label>
        <input
          id="token"
          name="token"
          type="password"
          required
          autoComplete="current-password"
          spellCheck={false}
          aria-describedby="token-hint"
          className="h-8 rounded border border-line-strong bg-sunken px-2 font-mono"
        />
        <p id="token-hint" className="text-xs text-muted">
          The server shows one on its first start; <code className="font-mono">omoi token create</code> makes more. It is
          kept for this tab only.
        </p>
        <Button look="main" type="submit" disabled={isBusy}>
          {isBusy ? 'Signing in…' : 'Sign in'}
        </Button>
      </form>
    </main>
  )
}

async function signIn(token: string) {
  // A header holds no other characters, and the browser's own words for that help nobody.
  if (!/^[\x21-\x7e]+$/.test(token)) throw new Problem(422, 'token_form', 'A token is letters, digits and underscores.')
  const who = await ask(api.GET('/api/v1/whoami', { headers: { authorization: `Bearer ${token}` } }))
  if (who.kind !== 'operator' || !who.role) {
    throw new Problem(403, 'not_an_operator', 'This is the token of a sandbox; the pages need an operator’s.')
  }
  session.begin({ token, name: who.name, role: who.role })
}
