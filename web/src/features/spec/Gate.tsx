import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Check, TriangleAlert, X } from 'lucide-react'
import { useState } from 'react'
import { useSession } from '../../api/session'
import type { Finding, PhaseAttempt, SpecDetail, SpecPhase } from '../../api/types'
import { useKeys } from '../../app/keys'
import { Button } from '../../ui/Button'
import { ErrorPanel } from '../../ui/panels'
import { nameOf, plain } from '../../ui/plain'
import { Section } from '../../ui/Section'
import { State } from '../../ui/State'
import { Ago } from '../../ui/Time'
import { ApproveDialog, ChangesDialog, RedoDialog } from './decisions'
import { afterApproval, score, TITLES } from './phase'
import { specExecute, type Seen } from './queries'

type Decision = 'approve' | 'changes' | 'redo'
/** What is asked about is what was seen when it was asked: a change in between is the server's to refuse. */
type Ask = { decision: Decision; seen: Seen }

/** What the server makes of a phase, and what a person may do about it. */
export function Gate({ spec, phase }: { spec: SpecDetail; phase: SpecPhase }) {
  const who = useSession()
  const [asked, setAsked] = useState<Ask>()
  const last = spec.phases.find((attempt) => attempt.phase === phase)
  const mayAct = who?.role !== 'viewer' && !spec.archived
  const mayApprove = mayAct && last?.state === 'waiting'
  // While agents work on the spec nothing of it is taken from under them.
  const mayChange = mayAct && last !== undefined && spec.status !== 'executing'
  const ask = (decision: Decision) => setAsked({ decision, seen: { id: spec.id, version: spec.version, phase } })
  useKeys({
    ...(mayApprove && { a: () => ask('approve') }),
    ...(mayChange && { r: () => ask('changes') }),
  })
  const close = () => setAsked(undefined)
  return (
    <Section title="Gate" aside={last && <State state={last.state} />}>
      <div className="flex flex-col gap-3 px-3 py-2">
        <Words spec={spec} phase={phase} last={last} />
        {last && <Judgement last={last} threshold={spec.threshold} />}
        {mayAct && <Start spec={spec} phase={phase} />}
        {(mayApprove || mayChange) && (
          <div className="flex flex-wrap gap-2">
            {mayApprove && (
              <Button look="main" onClick={() => ask('approve')} aria-keyshortcuts="a">
                {afterApproval(spec, phase).action}
              </Button>
            )}
            {mayChange && (
              <>
                <Button onClick={() => ask('changes')} aria-keyshortcuts="r">
                  Ask for changes
                </Button>
                <Button onClick={() => ask('redo')}>Redo from here</Button>
              </>
            )}
          </div>
        )}
      </div>
      {asked?.decision === 'approve' && <ApproveDialog spec={spec} seen={asked.seen} onClose={close} />}
      {asked?.decision === 'changes' && <ChangesDialog spec={spec} seen={asked.seen} onClose={close} />}
      {asked?.decision === 'redo' && <RedoDialog spec={spec} phase={asked.seen.phase} onClose={close} />}
    </Section>
  )
}

type WordsProps = { spec: SpecDetail; phase: SpecPhase; last: PhaseAttempt | undefined }

/** How the phase stands. */
function Words({ spec, phase, last }: WordsProps) {
  if (!last) {
    const gate = spec.gates.includes(phase) ? ' It will wait for a person.' : ' Nobody has to approve it.'
    return <p className="text-muted">Not begun.{gate}</p>
  }
  const by = last.edited_by ? `Written by ${nameOf(last.edited_by)}.` : undefined
  return (
    <>
      <p className={last.state === 'waiting' ? 'font-medium text-warn' : 'text-muted'}>{stateWords(last)}</p>
      {by && <p className="untrusted text-muted">{by}</p>}
      {last.state === 'failed' && spec.last_error && <p className="untrusted text-bad">{plain(spec.last_error)}</p>}
    </>
  )
}

function stateWords(last: PhaseAttempt) {
  switch (last.state) {
    case 'running':
      return last.edited_by ? 'It is about to be judged.' : 'An agent works on it.'
    case 'waiting':
      return (
        <>
          Waits for you since <Ago at={last.ended_at} />.
        </>
      )
    case 'approved':
      return 'A person has approved it.'
    case 'passed':
      return 'It is good enough, and nobody has to approve it.'
    case 'failed':
      return 'It is not good enough.'
    case 'stale':
      return 'What it was built on has changed since: it has to be redone.'
    default:
      return last.state satisfies never
  }
}

/** The score, and the reasons for it. */
function Judgement({ last, threshold }: { last: PhaseAttempt; threshold: number }) {
  if (typeof last.score !== 'number') return null
  return (
    <>
      <Score value={last.score} threshold={threshold} />
      {last.findings.length === 0 ? (
        <p className="flex items-center gap-1.5 text-ok">
          <Check size={14} aria-hidden /> Nothing was found wrong.
        </p>
      ) : (
        <ul className="flex flex-col gap-1.5">
          {last.findings.map((finding) => (
            <Reason key={`${finding.at} ${finding.text}`} finding={finding} />
          ))}
        </ul>
      )}
    </>
  )
}

function Score({ value, threshold }: { value: number; threshold: number }) {
  const isEnough = value >= threshold
  return (
    <div className="flex items-center gap-3">
      <span className={`text-lg font-semibold tabular-nums ${isEnough ? 'text-ok' : 'text-bad'}`}>{score(value)}</span>
      <div
        role="meter"
        aria-label="Score"
        aria-valuemin={0}
        aria-valuemax={1}
        aria-valuenow={value}
        aria-valuetext={`${score(value)} of 1, needs ${score(threshold)}`}
        className="relative h-2 min-w-16 flex-1 rounded-full bg-sunken"
      >
        <div className={`h-2 rounded-full ${isEnough ? 'bg-ok' : 'bg-bad'}`} style={{ width: `${value * 100}%` }} />
        <div className="absolute -top-1 h-4 w-0.5 bg-fg" style={{ left: `${threshold * 100}%` }} />
      </div>
      <span className="text-xs text-muted tabular-nums">needs {score(threshold)}</span>
    </div>
  )
}

function Reason({ finding: { severity, at, text } }: { finding: Finding }) {
  const isIssue = severity === 'issue'
  const Icon = isIssue ? X : TriangleAlert
  return (
    <li className="flex gap-1.5">
      <span className={`mt-0.5 shrink-0 ${isIssue ? 'text-bad' : 'text-warn'}`}>
        <Icon size={14} aria-hidden />
        <span className="sr-only">{isIssue ? 'issue' : 'warning'}:</span>
      </span>
      <span className="untrusted min-w-0">
        {plain(text)} <code className="font-mono text-xs text-muted">{nameOf(at)}</code>
      </span>
    </li>
  )
}

/** Begins what is next, where nothing else will. */
function Start({ spec, phase }: { spec: SpecDetail; phase: SpecPhase }) {
  const queries = useQueryClient()
  const start = useMutation({
    mutationFn: () => specExecute(spec.id),
    onSettled: () => queries.invalidateQueries({ queryKey: ['spec', spec.id] }),
  })
  const isNext = spec.current_phase === phase
  if (!isNext || (spec.status !== 'draft' && spec.status !== 'failed')) return null
  return (
    <div className="flex flex-col items-start gap-2">
      <Button look="main" disabled={start.isPending} onClick={() => start.mutate()}>
        {start.isPending ? 'Starting…' : `${spec.status === 'draft' ? 'Start' : 'Try again'}: ${TITLES[phase]} in a sandbox`}
      </Button>
      {start.error && (
        <div className="-m-3 self-stretch">
          <ErrorPanel error={start.error} />
        </div>
      )}
    </div>
  )
}
