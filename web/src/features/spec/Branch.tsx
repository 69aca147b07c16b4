import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Check, Circle, CircleSlash, GitBranch, LoaderCircle, X, type LucideIcon } from 'lucide-react'
import { useSession } from '../../api/session'
import type { MergeOutcome, SpecBranch, SpecBranchState, SpecConflict, SpecDetail, SpecMerge } from '../../api/types'
import { Button } from '../../ui/Button'
import { Copy } from '../../ui/Copy'
import { ErrorPanel } from '../../ui/panels'
import { nameOf, oneLine, plain } from '../../ui/plain'
import { Quiet, Section } from '../../ui/Section'
import { State } from '../../ui/State'
import { Ago } from '../../ui/Time'
import { specCombine } from './queries'

const COMMIT_CHARS = 8
const FILES = 20

/** The branch that holds the work of all tasks: what is in it, in which order, and what does not go together. */
export function Branch({ spec }: { spec: SpecDetail }) {
  const { branch } = spec
  const tasks = spec.items.filter(({ task_id }) => task_id)
  if (!branch && tasks.length === 0) return null
  const isMaking = branch?.state === 'wanted'
  return (
    <Section
      title="One branch"
      aside={
        <>
          {branch && <Standing state={branch.state} />}
          <span className="flex-1" />
          {!isMaking && tasks.some(({ status }) => status === 'completed') && <Make spec={spec} isAgain={branch !== null && branch !== undefined} />}
        </>
      }
    >
      {branch ? <Made spec={spec} branch={branch} /> : <Quiet>It is made once all tasks are completed; what is completed by now can be merged before that.</Quiet>}
    </Section>
  )
}

const STATES: Record<SpecBranchState, [LucideIcon, string, string]> = {
  wanted: [LoaderCircle, 'text-run', 'is being made'],
  merged: [Check, 'text-ok', 'all goes together'],
  conflict: [X, 'text-bad', 'not all goes together'],
  empty: [Circle, 'text-muted', 'nothing to merge'],
  failed: [X, 'text-bad', 'could not be made'],
}

function Standing({ state }: { state: SpecBranchState }) {
  const [Icon, tone, words] = STATES[state]
  return (
    <span className={`inline-flex items-center gap-1 text-xs font-medium ${tone}`}>
      <Icon size={12} aria-hidden />
      {words}
    </span>
  )
}

function Make({ spec, isAgain }: { spec: SpecDetail; isAgain: boolean }) {
  const who = useSession()
  const queries = useQueryClient()
  const make = useMutation({
    mutationFn: () => specCombine(spec.id),
    onSettled: () => queries.invalidateQueries({ queryKey: ['spec', spec.id] }),
  })
  if (who?.role === 'viewer' || spec.archived) return null
  return (
    <>
      <Button disabled={make.isPending} onClick={() => make.mutate()}>
        {isAgain ? 'Merge again' : 'Merge now'}
      </Button>
      {make.error && (
        <div className="-mx-3 basis-full">
          <ErrorPanel error={make.error} />
        </div>
      )}
    </>
  )
}

function Made({ spec, branch }: { spec: SpecDetail; branch: SpecBranch }) {
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-4 gap-y-1 px-3 py-2 text-xs text-muted">
        <Copy text={branch.name} label={`Copy the name ${nameOf(branch.name)}`} className="max-w-full font-mono">
          <GitBranch size={12} aria-hidden className="shrink-0" />
          <span className="untrusted truncate">{nameOf(branch.name)}</span>
        </Copy>
        {branch.commit && (
          <span className="inline-flex items-center gap-1">
            commit
            <Copy text={branch.commit} label={`Copy the commit ${nameOf(branch.commit)}`} className="font-mono">
              {short(branch.commit)}
            </Copy>
          </span>
        )}
        {branch.base_commit && (
          <span>
            began with <code className="font-mono">{short(branch.base_commit)}</code>
          </span>
        )}
        <Ago at={branch.updated_at} />
        <CheckState branch={branch} />
      </div>
      {branch.error && <p className="untrusted px-3 pb-2 text-bad">{plain(branch.error)}</p>}
      {branch.merges.length > 0 && (
        <ol aria-label="Tasks in the order in which they are merged" className="border-t border-line">
          {branch.merges.map((merge, n) => (
            <li key={merge.symbol} className="flex gap-3 border-b border-line px-3 py-1.5 last:border-b-0">
              <span aria-hidden className="w-5 shrink-0 font-mono text-xs leading-5 text-muted tabular-nums">
                {n + 1}
              </span>
              <MergeView merge={merge} title={spec.items.find(({ symbol }) => symbol === merge.symbol)?.title} />
            </li>
          ))}
        </ol>
      )}
    </>
  )
}

/** Whether the project's checks pass on all of it. */
function CheckState({ branch: { state, check_task_id, check_status } }: { branch: SpecBranch }) {
  // What is made anew is to be checked anew.
  if (state === 'wanted') return null
  if (check_task_id && check_status) {
    return (
      <span className="inline-flex items-center gap-1.5">
        <Link to="/tasks/$id" params={{ id: check_task_id }} search={{ tab: 'proof' }} className="inline-flex min-h-6 items-center text-accent hover:underline">
          checks
        </Link>
        <State state={check_status} />
      </span>
    )
  }
  if (state === 'merged') return <span>the project declares no checks</span>
  return state === 'conflict' ? <span>checks run once all goes together</span> : null
}

const OUTCOMES: Record<MergeOutcome, [LucideIcon, string, string]> = {
  merged: [Check, 'text-ok', 'merged'],
  contained: [Check, 'text-ok', 'in already'],
  conflict: [X, 'text-bad', 'conflicts, left out'],
  left_out: [CircleSlash, 'text-warn', 'left out'],
  nothing: [Circle, 'text-muted', 'has left nothing'],
}

function MergeView({ merge, title }: { merge: SpecMerge; title: string | undefined }) {
  const [Icon, tone, words] = OUTCOMES[merge.outcome]
  return (
    <div className="min-w-0 flex-1">
      <p className="flex flex-wrap items-center gap-x-3">
        <span className="min-w-0">
          <span className="untrusted font-mono text-xs text-muted">{nameOf(merge.symbol)}</span>{' '}
          <Link to="/tasks/$id" params={{ id: merge.task_id }} className="untrusted text-accent hover:underline">
            {oneLine(title ?? 'task', 160)}
          </Link>
        </span>
        <span className={`inline-flex items-center gap-1 text-xs font-medium ${tone}`}>
          <Icon size={12} aria-hidden />
          {words}
        </span>
        {merge.commit && (
          <code className="untrusted font-mono text-xs text-muted" title={nameOf(merge.commit)}>
            {short(merge.commit)}
          </code>
        )}
      </p>
      {merge.without.length > 0 && (
        <p className="untrusted text-xs text-warn">builds on {merge.without.map(nameOf).join(', ')}, which is not in</p>
      )}
      {merge.conflicts.map((conflict) => (
        <Pair key={conflict.with ?? ''} symbol={merge.symbol} conflict={conflict} isAlone={merge.conflicts.length === 1} />
      ))}
    </div>
  )
}

/** Two that do not go together, and where. */
function Pair({ symbol, conflict: { with: other, files }, isAlone }: { symbol: string; conflict: SpecConflict; isAlone: boolean }) {
  const whom = other ? nameOf(other) : isAlone ? 'the default branch, or with several tasks together' : 'the default branch'
  return (
    <div className="text-xs">
      <p className="untrusted text-bad">
        {nameOf(symbol)} conflicts with {whom} in
      </p>
      <ul className="untrusted pl-3 font-mono text-muted">
        {files.slice(0, FILES).map((file) => (
          <li key={file} className="break-all">
            {nameOf(file)}
          </li>
        ))}
        {files.length > FILES && <li className="font-sans">and {files.length - FILES} more</li>}
      </ul>
    </div>
  )
}

function short(commit: string): string {
  return nameOf(commit).slice(0, COMMIT_CHARS)
}
