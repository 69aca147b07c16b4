import { useMutation, useQuery } from '@tanstack/react-query'
import { useSession } from '../../api/session'
import { signOut } from '../../api/sign'
import type { Role } from '../../api/types'
import { Button } from '../../ui/Button'
import { ErrorPanel, Skeleton } from '../../ui/panels'
import { nameOf } from '../../ui/plain'
import { whole } from '../../ui/time'
import { whoami } from './queries'

export const MAY: Record<Role, string> = {
  viewer: 'may look at everything but tokens and the audit trail, and change nothing',
  operator: 'may start, steer and end work, and change projects',
  admin: 'may do everything, and make and revoke tokens',
}

/** Whom the server takes the reader for, and the way out. */
export function Profile() {
  const who = useQuery(whoami())
  const session = useSession()
  const leave = useMutation({ mutationFn: signOut })
  if (who.isPending) return <Skeleton rows={3} label="Asking who you are" />
  if (who.error) return <ErrorPanel error={who.error} onRetry={() => void who.refetch()} />
  const role = who.data.role
  return (
    <>
      <dl className="grid grid-cols-[8rem_minmax(0,1fr)] gap-x-3 gap-y-1">
        <dt className="text-muted">You are</dt>
        <dd className="untrusted font-medium">{nameOf(who.data.name)}</dd>
        <dt className="text-muted">Role</dt>
        <dd>{role ? `${role}: ${MAY[role]}` : 'none'}</dd>
        <dt className="text-muted">Signed in until</dt>
        <dd>{session?.expires_at ? `${whole(new Date(session.expires_at))}, later with every use` : 'the token ends'}</dd>
      </dl>
      {leave.error && <ErrorPanel error={leave.error} />}
      <div>
        <Button disabled={leave.isPending} onClick={() => leave.mutate()}>
          {leave.isPending ? 'Signing out…' : 'Sign out'}
        </Button>
      </div>
    </>
  )
}
