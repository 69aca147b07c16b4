import { Link } from '@tanstack/react-router'
import type { Task } from '../../api/types'
import { conflictOf } from '../../parts/conflict'
import { count } from '../../ui/amount'
import { plain } from '../../ui/plain'
import { Scroll } from '../../ui/Scroll'
import { Section } from '../../ui/Section'
import { ConflictView } from './ConflictView'
import { outcomeOf, type Outcome } from './outcome'
import { Verdict } from './Verdict'

const FAILURES: Record<NonNullable<Task['failure_kind']>, string> = {
  agent: 'The agent gave up or reported an error.',
  checks: 'Declared checks did not pass.',
  limit: 'A limit of turns, money or time was reached.',
  lost: 'The worker fell silent and its lease ran out.',
  crashed: 'The worker ended by itself.',
  shut_down: 'The worker was shut down before the work was done.',
  out_of_memory: 'The sandbox ran out of memory.',
  timed_out: 'It took longer than it may.',
  spawn: 'The sandbox could not be made.',
  unavailable: 'The model, the network or the forge could not be reached.',
  invalid: 'Something in its settings or input would fail again.',
}

/** What came of it, with what proves it. Nothing while it is not over. */
export function OutcomeView({ task }: { task: Task }) {
  const outcome = outcomeOf(task)
  const conflict = conflictOf(task)
  if (conflict) {
    return (
      <Section title="Why it failed">
        <ConflictView conflict={conflict} />
      </Section>
    )
  }
  switch (task.status) {
    case 'completed':
      return (
        <Section title="Outcome" aside={outcome && <Verdict of={outcome.verification} />}>
          {outcome ? <Evidence id={task.id} outcome={outcome} /> : <p className="px-3 py-2 text-muted">Completed, without a word.</p>}
        </Section>
      )
    case 'failed':
    case 'cancelled':
      return (
        <Section title={task.status === 'failed' ? 'Why it failed' : 'Why it was cancelled'}>
          <div className="flex flex-col gap-1 px-3 py-2">
            {task.failure_kind && <p>{FAILURES[task.failure_kind]}</p>}
            <Scroll label="What went wrong" className="untrusted max-h-60 text-bad">
              {plain(task.error_message || 'Nothing was said about it.')}
            </Scroll>
          </div>
          {outcome && <Evidence id={task.id} outcome={outcome} />}
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

function Evidence({ id, outcome }: { id: string; outcome: Outcome }) {
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
      <Link to="/tasks/$id" params={{ id }} search={{ tab: 'proof' }} className="text-accent underline">
        {outcome.checks.length === 0
          ? 'No check has run'
          : `${outcome.checks.filter((check) => check.passed).length} of ${count(outcome.checks.length, 'check')} passed`}
      </Link>
    </div>
  )
}
