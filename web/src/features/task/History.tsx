import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useSession } from '../../api/session'
import type { Sandbox, Task } from '../../api/types'
import { ErrorPanel, Skeleton } from '../../ui/panels'
import { nameOf, oneLine, shortId } from '../../ui/plain'
import { Quiet } from '../../ui/Section'
import { Table, type Heading } from '../../ui/Table'
import { Ago } from '../../ui/Time'
import { historyOf } from './history'
import { taskAudit } from './queries'

const HEADINGS: Heading[] = [
  { label: 'When' },
  { label: 'What' },
  { label: 'By' },
]

const DETAIL_CHARS = 300

/** What became of it, newest first, with who or what caused it. */
export function History({ task, attempts }: { task: Task; attempts: readonly Sandbox[] }) {
  const isAdmin = useSession()?.role === 'admin'
  const audit = useQuery({ ...taskAudit(task.id), enabled: isAdmin })
  if (isAdmin && audit.isPending) return <Skeleton rows={4} label="Loading the history" />
  return (
    <>
      {audit.error && <ErrorPanel error={audit.error} onRetry={() => void audit.refetch()} />}
      <Table headings={HEADINGS} edge="section">
        {historyOf(task, attempts, audit.data ?? []).map(({ at, key, what, who, sandbox, detail }) => (
          <tr key={key} className="border-b border-line align-top last:border-b-0">
            <td className="px-3 py-1.5 text-muted">
              <Ago at={at} />
            </td>
            <td className="px-2 py-1.5">
              <span className="untrusted">{oneLine(what, DETAIL_CHARS)}</span>{' '}
              {sandbox && (
                <Link to="/sandboxes/$id" params={{ id: sandbox }} title={sandbox} className="font-mono text-xs text-accent hover:underline">
                  {shortId(sandbox)}
                </Link>
              )}
              {detail && <p className="untrusted text-xs text-muted">{oneLine(detail, DETAIL_CHARS)}</p>}
            </td>
            <td className="untrusted min-w-20 px-2 py-1.5 text-muted">{who ? nameOf(who) : 'not told'}</td>
          </tr>
        ))}
      </Table>
      {!isAdmin && <Quiet>What people did stands in the audit trail, which takes the role admin to read.</Quiet>}
    </>
  )
}
