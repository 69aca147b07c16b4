import { useState, type FormEvent } from 'react'
import { asProblem, Problem } from '../../api/problem'
import { signIn } from '../../api/sign'
import { Button } from '../../ui/Button'

/** Asks for an operator's token, shows it to the server once and forgets it. */
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
      // The browser's own words for what no token holds help nobody.
      if (!/^[\x21-\x7e]+$/.test(token)) throw new Problem(422, 'token_form', 'A token is letters, digits and underscores.')
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
          The server shows one on its first start; <code className="font-mono">omoi token create</code> makes more. This
          browser stays signed in for twelve hours after its last use.
        </p>
        <Button look="main" type="submit" disabled={isBusy}>
          {isBusy ? 'Signing in…' : 'Sign in'}
        </Button>
      </form>
    </main>
  )
}
