import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { CheckResult } from '../../api/types'
import { ansiLines } from '../../ui/ansi'
import { AnsiLine } from '../../ui/Ansi'
import { count } from '../../ui/amount'
import { Copy } from '../../ui/Copy'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { nameOf, plain, shortId } from '../../ui/plain'
import { Scroll } from '../../ui/Scroll'
import { duration } from '../../ui/time'
import { taskEvidence } from './queries'
import { Verdict } from './Verdict'

/** Each declared check as it ran last, on which commit, and what that proves. */
export function Proof({ id }: { id: string }) {
  const evidence = useQuery(taskEvidence(id))
  if (evidence.isPending) return <Skeleton rows={4} label="Loading the proof" />
  if (!evidence.data) return <ErrorPanel error={evidence.error} onRetry={() => void evidence.refetch()} />
  const { checks, commit, verification, status, stage } = evidence.data
  const passed = checks.filter((check) => check.passed).length
  const isOver = status === 'completed' || status === 'failed' || status === 'cancelled'
  return (
    <div className="flex flex-col gap-2 p-3">
      <p className="flex flex-wrap items-center gap-x-4 gap-y-1">
        {isOver ? <Verdict of={verification} /> : <span className="text-muted">{stage === 'check' ? 'Its checks are run now, or are about to be.' : 'Nothing is proven while it is worked on.'}</span>}
        {commit && (
          <span className="flex items-center gap-1 text-xs text-muted">
            commit{' '}
            <Copy text={commit} label={`Copy the commit ${nameOf(commit)}`} className="font-mono">
              {nameOf(commit.slice(0, 12))}
            </Copy>
          </span>
        )}
        {checks.length > 0 && (
          <span className="text-xs text-muted">
            {passed} of {count(checks.length, 'check')} passed
          </span>
        )}
      </p>
      {checks.length === 0 ? (
        <Empty title="No check has run.">
          <p>Checks are declared in the settings of the project, one per line. What passes all of them is verified.</p>
        </Empty>
      ) : (
        <ul aria-label="Checks" className="flex flex-col gap-2">
          {checks.map((check) => (
            <Check key={check.name} check={check} />
          ))}
        </ul>
      )}
    </div>
  )
}

function Check({ check }: { check: CheckResult }) {
  const { name, command, passed, exit_code, duration_ms, output_preview, sandbox_id } = check
  const lines = output_preview ? ansiLines(output_preview) : []
  return (
    <li className="overflow-hidden rounded border border-line">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-0.5 px-3 py-1">
        <span className={`font-medium ${passed ? 'text-ok' : 'text-bad'}`}>{passed ? 'passed' : 'failed'}</span>
        <span className="untrusted font-medium">{plain(name)}</span>
        <code className="untrusted min-w-0 font-mono text-xs text-muted">$ {plain(command)}</code>
        <span className="flex-1" />
        <span className="text-xs text-muted tabular-nums">
          {exit_code === null || exit_code === undefined ? 'ended by a signal or its time limit' : `exit ${exit_code}`}
          {typeof duration_ms === 'number' && ` · ${duration(duration_ms)}`}
        </span>
        {sandbox_id && (
          <Link to="/sandboxes/$id" params={{ id: sandbox_id }} title={`It ran in ${sandbox_id}`} className="font-mono text-xs text-accent hover:underline">
            {shortId(sandbox_id)}
          </Link>
        )}
      </div>
      <details open={!passed}>
        <summary className="min-h-6 cursor-pointer px-3 text-xs text-muted">{lines.length > 0 ? `Output, ${count(lines.length, 'line')} of its end` : 'No output'}</summary>
        {lines.length > 0 && (
          <Scroll label={`Output of ${plain(name)}`} className="term max-h-96 px-3 py-1 font-mono text-xs leading-4">
            {lines.map((spans, index) => (
              // oxlint-disable-next-line react/no-array-index-key -- lines never change their order
              <div key={index} className="term-line">
                <AnsiLine spans={spans} />
              </div>
            ))}
          </Scroll>
        )}
      </details>
    </li>
  )
}
