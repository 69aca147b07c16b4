import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query'
import { useState, type FormEvent } from 'react'
import { asProblem } from '../../api/problem'
import { errorsOf } from '../../api/refusal'
import { useSession } from '../../api/session'
import type { Role, Token } from '../../api/types'
import { Button } from '../../ui/Button'
import { Confirm } from '../../ui/Confirm'
import { Copy } from '../../ui/Copy'
import { Dialog } from '../../ui/Dialog'
import { SelectField, TextField } from '../../ui/Field'
import { More } from '../../ui/More'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { nameOf } from '../../ui/plain'
import { Section } from '../../ui/Section'
import { Table, type Heading } from '../../ui/Table'
import { Ago } from '../../ui/Time'
import { whole } from '../../ui/time'
import { MAY } from './Profile'
import { tokenCreate, tokenList, tokenRevoke } from './queries'

const HEADINGS: Heading[] = [
  { label: 'Name' },
  { label: 'Role' },
  { label: 'Made', from: 'md' },
  { label: 'Ends' },
  { label: 'Actions', isHidden: true },
]

const ROLES = Object.keys(MAY) as Role[]
const DAYS = ['7', '30', '90', '365'] as const
const DAY_MS = 86_400_000

/** Who may use the server: tokens are made here, shown once, and taken back. */
export function Tokens() {
  const isAdmin = useSession()?.role === 'admin'
  const list = useInfiniteQuery({ ...tokenList(), enabled: isAdmin })
  const [now] = useState(() => new Date())
  if (!isAdmin) return <Empty title="Tokens take the role admin." />
  const tokens = list.data?.pages.flatMap((page) => page.items) ?? []
  return (
    <>
      <NewToken />
      <Section title="Tokens">
        {list.isPending && <Skeleton rows={3} label="Loading tokens" />}
        {list.error && <ErrorPanel error={list.error} onRetry={() => void list.refetch()} />}
        {tokens.length > 0 && (
          <Table headings={HEADINGS} edge="section">
            {tokens.map((token) => (
              <Row key={token.id} token={token} now={now} />
            ))}
          </Table>
        )}
        <More list={list} />
      </Section>
    </>
  )
}

function Row({ token, now }: { token: Token; now: Date }) {
  const queries = useQueryClient()
  const [isAsking, setIsAsking] = useState(false)
  const revoke = useMutation({
    mutationFn: () => tokenRevoke(token.id),
    onSuccess: () => setIsAsking(false),
    onSettled: () => queries.invalidateQueries({ queryKey: ['tokens'] }),
  })
  return (
    <tr className="h-8 border-b border-line last:border-b-0">
      <td className={`untrusted px-3 font-medium ${token.revoked_at ? 'text-muted line-through' : ''}`}>{nameOf(token.name)}</td>
      <td className="px-2">{token.role}</td>
      <td className="hidden px-2 text-muted md:table-cell">
        <Ago at={token.created_at} />
      </td>
      <td className="px-2 text-muted">{endOf(token, now)}</td>
      <td className="px-3 text-right">
        {!token.revoked_at && (
          <Button aria-label={`Revoke ${nameOf(token.name)}`} onClick={() => setIsAsking(true)}>
            Revoke
          </Button>
        )}
        {isAsking && (
          <Confirm
            title="Revoke this token?"
            action="Revoke"
            isBusy={revoke.isPending}
            error={revoke.error}
            onConfirm={() => revoke.mutate()}
            onClose={() => setIsAsking(false)}
          >
            <p className="untrusted text-left">
              Whoever uses “{nameOf(token.name)}”, in a browser or a program, is refused from then on. It cannot be taken back; a new token can be made.
            </p>
          </Confirm>
        )}
      </td>
    </tr>
  )
}

export function endOf({ revoked_at, expires_at }: Pick<Token, 'revoked_at' | 'expires_at'>, now: Date): string {
  if (revoked_at) return `revoked ${whole(new Date(revoked_at))}`
  if (!expires_at) return 'never'
  const end = new Date(expires_at)
  return end <= now ? `ended ${whole(end)}` : whole(end)
}

function NewToken() {
  const queries = useQueryClient()
  const [name, setName] = useState('')
  const [role, setRole] = useState<Role>('operator')
  const [days, setDays] = useState('90')
  const create = useMutation({
    mutationFn: () => tokenCreate(name.trim(), role, days ? new Date(Date.now() + Number(days) * DAY_MS).toISOString() : undefined),
    onSuccess: () => setName(''),
    onSettled: () => queries.invalidateQueries({ queryKey: ['tokens'] }),
  })
  const errors = errorsOf(create.error ? asProblem(create.error) : undefined, ['name', 'role', 'expires_at'])
  const submit = (event: FormEvent) => {
    event.preventDefault()
    create.mutate()
  }
  return (
    <Section title="New token">
      <form onSubmit={submit} className="flex flex-col gap-3 p-3">
        {errors.rest && <ErrorPanel error={errors.rest} />}
        <fieldset disabled={create.isPending} className="grid gap-3 md:grid-cols-3">
          <legend className="sr-only">New token</legend>
          <TextField label="Name" required value={name} onChange={setName} error={errors.at('name')} hint="Who or what uses it; the audit trail names it." />
          <SelectField
            label="Role"
            required
            value={role}
            onChange={(value) => setRole(ROLES.find((one) => one === value) ?? 'viewer')}
            error={errors.at('role')}
            options={ROLES.map((one) => ({ value: one, label: one }))}
            hint={`It ${MAY[role]}.`}
          />
          <SelectField
            label="Ends after"
            required
            value={days}
            onChange={setDays}
            error={errors.at('expires_at')}
            options={[...DAYS.map((count) => ({ value: count, label: `${count} days` })), { value: '', label: 'never' }]}
          />
        </fieldset>
        <div>
          <Button look="main" type="submit" disabled={create.isPending || name.trim() === ''}>
            {create.isPending ? 'Making…' : 'Make a token'}
          </Button>
        </div>
      </form>
      {create.data && (
        <Dialog title="The token, this once" onClose={() => create.reset()}>
          <p className="text-muted">It is shown now and never again. Keep it where only “{nameOf(create.data.name)}” can read it.</p>
          <code className="rounded bg-sunken p-2 font-mono text-xs break-all select-all">{create.data.secret}</code>
          <div>
            <Copy text={create.data.secret} label="Copy the token" className="rounded border border-line-strong px-2">
              Copy
            </Copy>
          </div>
        </Dialog>
      )}
    </Section>
  )
}
