import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useId, useState } from 'react'
import { asProblem } from '../../api/problem'
import type { Diagnosis, Proposal } from '../../api/types'
import { Button } from '../../ui/Button'
import { ErrorPanel } from '../../ui/panels'
import { nameOf, plain, shortId } from '../../ui/plain'
import { Section } from '../../ui/Section'
import { Ago } from '../../ui/Time'
import { Badge, type Tone } from './Badge'
import type { TabProps } from './MonitorPage'
import { List, Over, ProjectChoice, TaskLink, useDeed, useMayAct } from './parts'
import { diagnosisAccept, diagnosisDismiss, diagnosisList } from './queries'

const STATES: Record<Diagnosis['state'], [Tone, string]> = {
  open: ['warn', 'waits for you'],
  accepted: ['ok', 'accepted'],
  dismissed: ['muted', 'dismissed'],
  overtaken: ['muted', 'went on by itself'],
}

/** Why tickets are stuck, and what could be done about it. */
export function Diagnoses({ search: { project, all }, onSearch }: TabProps) {
  const diagnoses = useInfiniteQuery(diagnosisList(project, Boolean(all)))
  return (
    <>
      <div className="flex flex-wrap gap-4">
        <ProjectChoice isAllOffered chosen={project} onChoose={(chosen) => onSearch({ project: chosen })} />
        <Over isOn={Boolean(all)} onChange={(isOn) => onSearch({ all: isOn ? true : undefined })}>
          also those that are decided
        </Over>
      </div>
      <Section title="Diagnoses, newest first">
        <List list={diagnoses} label="diagnoses" empty={all ? 'No ticket was ever stuck.' : 'No stuck ticket waits for a decision.'}>
          {(items) => (
            <ul>
              {items.map((diagnosis) => (
                <Row key={diagnosis.id} diagnosis={diagnosis} />
              ))}
            </ul>
          )}
        </List>
      </Section>
    </>
  )
}

function Row({ diagnosis }: { diagnosis: Diagnosis }) {
  const { state, ticket_id, number, total_tasks, completed_tasks, failed_tasks, root_cause, hypotheses, proposals, created_at } = diagnosis
  const [tone, words] = STATES[state]
  return (
    <li className="flex flex-col gap-2 border-b border-line px-3 py-3 last:border-b-0">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-0.5">
        <Badge tone={tone} isWaiting={state === 'open'}>
          {words}
        </Badge>
        <Link to="/board" search={{ view: 'tickets' }} title={ticket_id} className="inline-flex min-h-6 items-center text-accent hover:underline">
          Ticket {shortId(ticket_id)}
        </Link>
        <span className="text-muted tabular-nums">
          {completed_tasks} of {total_tasks} tasks completed, {failed_tasks} failed{number > 1 && `; diagnosis ${number}`}
        </span>
        <span className="ml-auto text-xs text-muted">
          <Ago at={created_at} />
        </span>
      </div>
      <p className="untrusted font-medium whitespace-pre-wrap">{plain(root_cause)}</p>
      {hypotheses.length > 0 && (
        <ul className="flex flex-col gap-0.5 text-muted">
          {hypotheses.map(({ statement, likelihood, tasks }) => (
            <li key={statement} className="flex flex-wrap items-center gap-x-2">
              <span className="text-xs tabular-nums">{Math.round(likelihood * 100)} %</span>
              <span className="untrusted min-w-0">{plain(statement)}</span>
              {tasks.slice(0, 3).map((id) => (
                <TaskLink key={id} id={id} />
              ))}
            </li>
          ))}
        </ul>
      )}
      {state === 'open' ? <Decide diagnosis={diagnosis} /> : <Proposals proposals={proposals} />}
      {diagnosis.decided_at && (
        <p className="untrusted text-xs text-muted">
          decided by {nameOf(diagnosis.decided_by ?? 'somebody')} <Ago at={diagnosis.decided_at} />
        </p>
      )}
    </li>
  )
}

/** All that is proposed is chosen at first. */
function Decide({ diagnosis: { id, proposals } }: { diagnosis: Diagnosis }) {
  const mayAct = useMayAct()
  const [left, setLeft] = useState<ReadonlySet<number>>(new Set())
  const chosen = proposals.map((_, n) => n).filter((n) => !left.has(n))
  const accepting = useDeed(() => diagnosisAccept(id, chosen))
  const dropping = useDeed(() => diagnosisDismiss(id))
  const isBusy = accepting.isPending || dropping.isPending
  const error = accepting.error ?? dropping.error
  if (!mayAct) return <Proposals proposals={proposals} />
  const toggle = (n: number) => {
    const next = new Set(left)
    if (!next.delete(n)) next.add(n)
    setLeft(next)
  }
  return (
    <>
      <Proposals proposals={proposals} isChosen={(n) => !left.has(n)} onToggle={toggle} />
      <div className="flex flex-wrap gap-2">
        <Button look="main" disabled={isBusy || chosen.length === 0} onClick={() => accepting.mutate(undefined)}>
          {accepting.isPending ? 'Accepting…' : chosen.length === proposals.length ? 'Accept all' : `Accept ${chosen.length} of ${proposals.length}`}
        </Button>
        <Button disabled={isBusy} onClick={() => dropping.mutate(undefined)}>
          {dropping.isPending ? 'Dismissing…' : 'Dismiss'}
        </Button>
      </div>
      {error && <ErrorPanel error={asProblem(error)} />}
    </>
  )
}

const KINDS: Record<Proposal['kind'], string> = { retry: 'another try', task: 'a new task' }

type ProposalsProps = { proposals: readonly Proposal[]; isChosen?: (n: number) => boolean; onToggle?: (n: number) => void }

function Proposals({ proposals, isChosen, onToggle }: ProposalsProps) {
  const id = useId()
  return (
    <ol className="flex flex-col gap-1">
      {proposals.map((proposal, n) => (
        // oxlint-disable-next-line react/no-array-index-key -- they are named by their places
        <li key={n} className="flex gap-2 rounded bg-sunken px-2 py-1">
          {onToggle && (
            <input
              type="checkbox"
              id={`${id}-${n}`}
              checked={isChosen?.(n) ?? false}
              onChange={() => onToggle(n)}
              className="mt-1 size-4 shrink-0 accent-accent"
            />
          )}
          <div className="flex min-w-0 flex-1 flex-col">
            <label htmlFor={onToggle && `${id}-${n}`} className="untrusted font-medium">
              {plain(proposal.title)}
            </label>
            <span className="untrusted text-xs whitespace-pre-wrap text-muted">{plain(proposal.description)}</span>
            <span className="flex flex-wrap items-center gap-x-3 text-xs text-muted">
              <span>
                {KINDS[proposal.kind]}, {proposal.priority.toLowerCase()} priority
              </span>
              <span>
                about <TaskLink id={proposal.about} />
              </span>
              {proposal.task_id && (
                <span>
                  became <TaskLink id={proposal.task_id} />
                </span>
              )}
            </span>
          </div>
        </li>
      ))}
    </ol>
  )
}
