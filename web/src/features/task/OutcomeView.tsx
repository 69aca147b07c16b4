import { Check, CircleHelp, X } from 'lucide-react'
import type { Task } from '../../api/types'
import { plain } from '../../ui/plain'
import { Section } from '../../ui/Section'
import { outcomeOf, type Outcome } from './outcome'

const FAILURES: Record<NonNullable<Task['failure_kind']>, string> = {
  agent: 'The agent gave up or reported an error.',
  checks: 'Declared checks did not pass.',
  limit: 'A limit of turns, money or time was reached.',
  lost: 'The worker fell silent and its lease ran out.',
  crashed: 'The worker ended by itself.',
  out_of_memory: 'The sandbox ran out of memory.',
  timed_out: 'It took longer than it may.',
  spawn: 'The sandbox could not be made.',
  unavailable: 'The model, the network or the forge could not be reached.',
  invalid: 'Something in its settings or input would fail again.',
}

/** What came of it, with what proves it. Nothing while it is not over. */
export function OutcomeView({ task }: { task: Task }) {
  const outcome = outcomeOf(task)
  switch (task.status) {
    case 'completed':
      return (
        <Section title="Outcome" aside={outcome && <Verdict of={outcome.verification} />}>
          {outcome ? <Evidence outcome={outcome} /> : <p className="px-3 py-2 text-muted">Completed, without a word.</p>}
        </Section>
      )
    case 'failed':
    case 'cancelled':
      return (
        <Section title={task.status === 'failed' ? 'Why it failed' : 'Why it was cancelled'}>
          <div className="flex flex-col gap-1 px-3 py-2">
            {task.failure_kind && <p>{FAILURES[task.failure_kind]}</p>}
            <p className="untrusted text-bad">{plain(task.error_message || 'Nothing was said about it.')}</p>
          </div>
          {outcome && <Evidence outcome={outcome} />}
        </Section>
      )
    case 'pending':
    case 'assigned':
    case 'running':
      return task.error_message ? (
        <Section title="The attempt before this one">
          <p className="untrusted px-3 py-2 text-muted">{plain(task.error_message)}</p>
        </Section>
      ) : null
    default:
      return task.status satisfies never
  }
}

function Verdict({ of }: { of: Outcome['verification'] }) {
  switch (of) {
    case 'verified':
      return (
        <span className="inline-flex items-center gap-1 text-ok">
          <Check size={14} aria-hidden /> verified: its checks passed on this commit
        </span>
      )
    case 'disputed':
      return (
        <span className="inline-flex items-center gap-1 text-bad">
          <X size={14} aria-hidden /> disputed: somebody or something says otherwise
        </span>
      )
    case 'unverified':
      return (
        <span className="inline-flex items-center gap-1 text-warn">
          <CircleHelp size={14} aria-hidden /> unverified: the agent says so, and no check has proven it
        </span>
      )
    default:
      return of satisfies never
  }
}

function Evidence({ outcome }: { outcome: Outcome }) {
  const facts: [string, string | undefined][] = [
    ['Branch', outcome.branch],
    ['Commit', outcome.commit],
    ['Turns', outcome.turns?.toString()],
    ['Pull request', outcome.pullRequest],
  ]
  return (
    <div className="flex flex-col gap-2 px-3 py-2">
      {outcome.output && <p className="untrusted">{plain(outcome.output)}</p>}
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1 text-xs">
        {facts.map(
          ([name, value]) =>
            value && (
              <div key={name} className="contents">
                <dt className="text-muted">{name}</dt>
                <dd className="untrusted min-w-0 font-mono break-all">{plain(value)}</dd>
              </div>
            ),
        )}
      </dl>
      {outcome.checks.length > 0 && (
        <ul aria-label="Checks" className="flex flex-col gap-1">
          {outcome.checks.map((check) => (
            <li key={check.name}>
              <details>
                <summary className="min-h-6 cursor-pointer">
                  <span className={check.passed ? 'text-ok' : 'text-bad'}>{check.passed ? 'passed' : 'failed'}</span>{' '}
                  <span className="untrusted">{plain(check.name)}</span>{' '}
                  {check.exitCode !== undefined && <span className="text-muted">exit {check.exitCode}</span>}
                </summary>
                <pre className="untrusted mt-1 overflow-auto rounded bg-sunken p-2 font-mono text-xs">
                  {`$ ${plain(check.command)}\n${plain(check.output)}`}
                </pre>
              </details>
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}
