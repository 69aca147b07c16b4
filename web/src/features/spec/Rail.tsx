import { Link } from '@tanstack/react-router'
import { LockKeyhole } from 'lucide-react'
import type { PhaseAttempt, SpecDetail, SpecPhase } from '../../api/types'
import { count } from '../../ui/amount'
import { State } from '../../ui/State'
import { Took } from '../../ui/Time'
import { score, stepsOf, TITLES, type Step } from './phase'

type Props = {
  spec: SpecDetail
  chosen: SpecPhase
  /** What the sandbox of the phase that is worked on does now. */
  doing: string | undefined
}

/** All phases in their order; each leads to its output. */
export function Rail({ spec, chosen, doing }: Props) {
  return (
    <nav aria-label="Phases">
      <ol className="grid grid-cols-2 gap-2 md:flex">
        {stepsOf(spec).map((step, n) => (
          <li key={step.phase} className="min-w-0 md:flex-1">
            <StepLink id={spec.id} step={step} place={n + 1} isChosen={step.phase === chosen} doing={doing} />
          </li>
        ))}
      </ol>
    </nav>
  )
}

type StepProps = { id: string; step: Step; place: number; isChosen: boolean; doing: string | undefined }

function StepLink({ id, step: { phase, isGate, last }, place, isChosen, doing }: StepProps) {
  return (
    <Link
      to="/specs/$id"
      params={{ id }}
      search={{ phase }}
      replace
      aria-current={isChosen ? 'step' : undefined}
      className={`flex h-full min-h-16 flex-col gap-1 rounded-lg border px-3 py-2 ${isChosen ? 'border-accent bg-accent-soft' : 'border-line bg-surface hover:border-line-strong'}`}
    >
      <span className="flex items-center gap-1.5">
        <span className="font-mono text-xs text-muted">{place}</span>
        <span className="min-w-0 truncate font-medium">{TITLES[phase]}</span>
        {isGate && (
          <span title="waits for a person" className="text-muted">
            <LockKeyhole size={12} aria-hidden />
            <span className="sr-only">waits for a person</span>
          </span>
        )}
      </span>
      {last ? <Facts last={last} doing={doing} /> : <span className="text-xs text-muted">not begun</span>}
    </Link>
  )
}

function Facts({ last, doing }: { last: PhaseAttempt; doing: string | undefined }) {
  return (
    <>
      <span className="flex flex-wrap items-center gap-x-2 gap-y-1 text-xs text-muted tabular-nums">
        <State state={last.state} />
        {typeof last.score === 'number' && <span>{score(last.score)}</span>}
        <Took from={last.started_at} to={last.ended_at} />
        {last.attempt > 1 && <span>{count(last.attempt, 'attempt')}</span>}
      </span>
      {last.state === 'running' && doing && <span className="untrusted block truncate text-xs text-muted">{doing}</span>}
    </>
  )
}
