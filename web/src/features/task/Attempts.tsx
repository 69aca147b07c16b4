import type { UseQueryResult } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { Sandbox } from '../../api/types'
import { endedWords } from '../../parts/ended'
import { usd } from '../../ui/amount'
import { ErrorPanel, Skeleton } from '../../ui/panels'
import { oneLine, shortId } from '../../ui/plain'
import { Reported } from '../../ui/Reported'
import { Quiet } from '../../ui/Section'
import { State } from '../../ui/State'
import { duration } from '../../ui/time'
import { Ago } from '../../ui/Time'

const REASON_CHARS = 120

/** One row per sandbox that has held the task, newest first. */
export function Attempts({ attempts }: { attempts: UseQueryResult<{ items: Sandbox[] }> }) {
  const rows = attempts.data?.items ?? []
  const [chosen, setChosen] = useState<string[]>([])
  const canCompare = rows.length > 1
  return (
    <>
      {attempts.isPending && <Skeleton rows={2} label="Loading attempts" />}
      {attempts.error && <ErrorPanel error={attempts.error} onRetry={() => void attempts.refetch()} />}
      {attempts.data && rows.length === 0 && <Quiet>Nobody has tried it yet.</Quiet>}
      {rows.length > 0 && (
        <table className="w-full text-left">
          <thead className="text-2xs text-subtle">
            <tr className="h-7 border-b border-line">
              {canCompare && (
                <th className="w-8 pl-3">
                  <span className="sr-only">Compare</span>
                </th>
              )}
              <th className="px-3 font-medium">State</th>
              <th className="px-2 font-medium">Sandbox</th>
              <th className="px-2 font-medium">Why it ended</th>
              <th className="hidden px-2 font-medium md:table-cell">Started</th>
              <th className="hidden px-2 font-medium md:table-cell">Took</th>
              <th className="px-3 text-right font-medium">Cost</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((sandbox) => (
              <tr key={sandbox.id} className="h-8 border-b border-line last:border-b-0">
                {canCompare && (
                  <td className="pl-3">
                    <input
                      type="checkbox"
                      aria-label={`Compare ${shortId(sandbox.id)}`}
                      checked={chosen.includes(sandbox.id)}
                      onChange={() => setChosen(choose(chosen, sandbox.id))}
                      className="block size-4 accent-(--accent)"
                    />
                  </td>
                )}
                <td className="px-3">
                  <State state={sandbox.status} />
                </td>
                <td className="px-2">
                  <Link
                    to="/sandboxes/$id"
                    params={{ id: sandbox.id }}
                    title={sandbox.id}
                    className="inline-flex min-h-6 items-center font-mono text-xs whitespace-nowrap text-accent hover:underline"
                  >
                    {shortId(sandbox.id)}
                  </Link>
                  {sandbox.stage === 'check' && <span className="ml-2 text-xs text-muted">checks</span>}
                </td>
                <td className="untrusted px-2 text-muted">{why(sandbox)}</td>
                <td className="hidden px-2 text-muted md:table-cell">
                  <Ago at={sandbox.started_at ?? sandbox.created_at} />
                </td>
                <td className="hidden px-2 text-muted tabular-nums md:table-cell">{took(sandbox)}</td>
                <td className="px-3 text-right text-muted tabular-nums">
                  {usd(sandbox.cost_usd ?? 0)} <Reported cost={sandbox.reported_cost} beside={sandbox.cost_usd ?? 0} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {canCompare && <Compare ids={rows.map(({ id }) => id).filter((id) => chosen.includes(id))} />}
    </>
  )
}

/** Two at most: another takes the place of the one that was chosen first. */
export function choose(chosen: readonly string[], id: string): string[] {
  return chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen.slice(-1), id]
}

/** The earlier attempt comes first. */
function Compare({ ids: [later, earlier] }: { ids: string[] }) {
  return (
    <p className="border-t border-line px-3 py-1.5 text-xs text-muted">
      {later && earlier ? (
        <Link to="/compare" search={{ a: earlier, b: later }} className="inline-flex min-h-6 items-center text-accent underline">
          Compare the two attempts
        </Link>
      ) : (
        'Choose two attempts to compare them.'
      )}
    </p>
  )
}

function why({ end_reason, place_error, ended_at }: Sandbox): string {
  const words = [end_reason && endedWords(end_reason), place_error].filter((word) => word).join(': ')
  return words ? oneLine(words, REASON_CHARS) : ended_at ? 'not said' : '–'
}

function took({ started_at, created_at, ended_at }: Sandbox): string {
  return ended_at ? duration(Date.parse(ended_at) - Date.parse(started_at ?? created_at)) : '–'
}
