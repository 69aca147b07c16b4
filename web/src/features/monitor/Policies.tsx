import { useMutation, useQuery } from '@tanstack/react-query'
import { useId, useRef, useState } from 'react'
import { asProblem, type Problem } from '../../api/problem'
import type { GuardianPolicy, PolicyTried } from '../../api/types'
import { tell } from '../../app/toast'
import { count } from '../../ui/amount'
import { Button } from '../../ui/Button'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { nameOf, plain } from '../../ui/plain'
import { Quiet, Section } from '../../ui/Section'
import { Ago } from '../../ui/Time'
import { Badge } from './Badge'
import type { TabProps } from './MonitorPage'
import { ProjectChoice, SandboxLink, useDeed, useMayAct } from './parts'
import { lineOf } from './policyLine'
import { policyDelete, policyOf, policyPut, policyTry } from './queries'
import { DO_WORDS, KIND_WORDS, SEVERITY_TONES } from './words'

const SOURCES: Record<GuardianPolicy['source'], string> = {
  default: 'the policy that comes with the program',
  server: 'the policy of this server',
  project: 'a policy of its own',
}

/** When something is a finding in a project, and what is done about it. */
export function Policies({ onSearch, project }: TabProps & { project: string | undefined }) {
  if (project === undefined) return <Empty title="There is no project yet, so there is nothing to have a policy." />
  return (
    <>
      <ProjectChoice chosen={project} onChoose={(chosen) => onSearch({ project: chosen })} />
      <One key={project} project={project} />
    </>
  )
}

function One({ project }: { project: string }) {
  const policy = useQuery(policyOf(project))
  if (policy.error) return <ErrorPanel error={policy.error} onRetry={() => void policy.refetch()} />
  if (!policy.data) return <Skeleton rows={8} label="Loading the policy" />
  return <Editor project={project} policy={policy.data} />
}

function Editor({ project, policy }: { project: string; policy: GuardianPolicy }) {
  const mayAct = useMayAct()
  const [draft, setDraft] = useState<{ text: string; version: number }>()
  const text = draft?.text ?? policy.text
  const isChanged = draft !== undefined && draft.text !== policy.text
  const isOvertaken = draft !== undefined && draft.version !== policy.version
  const back = () => (policy.source === 'project' ? policyPut(project, policy.text, undefined) : policyDelete(project))
  const done = (words: string) => {
    setDraft(undefined)
    tell({ words, undo: back })
  }
  const saving = useDeed(() => policyPut(project, text, draft?.version ?? policy.version).then(() => done('The policy is changed.')))
  const dropping = useDeed(() => policyDelete(project).then(() => done('The project has the usual policy again.')))
  const trying = useMutation({ mutationFn: () => policyTry(project, text) })
  const isBusy = saving.isPending || dropping.isPending
  const error = saving.error ?? dropping.error ?? trying.error
  const problem = error ? asProblem(error) : undefined
  const change = (next: string) => {
    setDraft({ text: next, version: draft?.version ?? policy.version })
    for (const call of [saving, dropping, trying]) call.reset()
  }
  return (
    <>
      <Section
        title="Policy"
        aside={
          <span className="text-xs text-muted">
            {SOURCES[policy.source]}
            {policy.version > 0 && `, version ${policy.version}`}; steering {policy.steering}
            {policy.updated_at && (
              <>
                ; changed by <span className="untrusted">{nameOf(policy.updated_by ?? 'somebody')}</span> <Ago at={policy.updated_at} />
              </>
            )}
          </span>
        }
      >
        <div className="flex flex-col gap-2 p-3">
          {isOvertaken && (
            <p role="status" className="text-warn">
              Somebody has changed it since you began.{' '}
              <button type="button" onClick={() => setDraft(undefined)} className="min-h-6 cursor-pointer underline">
                Show theirs
              </button>
            </p>
          )}
          <Lines text={text} onChange={change} problem={problem} isReadOnly={!mayAct} />
          {mayAct ? (
            <div className="flex flex-wrap gap-2">
              <Button look="main" disabled={!isChanged || isBusy} onClick={() => saving.mutate(undefined)}>
                {saving.isPending ? 'Saving…' : 'Save'}
              </Button>
              <Button disabled={trying.isPending} onClick={() => trying.mutate()}>
                {trying.isPending ? 'Trying…' : 'Try on the last 24 hours'}
              </Button>
              {isChanged && <Button onClick={() => setDraft(undefined)}>Take back the changes</Button>}
              {policy.source === 'project' && (
                <Button disabled={isBusy} onClick={() => dropping.mutate(undefined)}>
                  Use the usual policy again
                </Button>
              )}
            </div>
          ) : (
            <p className="text-xs text-muted">To change it needs the role operator.</p>
          )}
        </div>
      </Section>
      {trying.data && <Tried tried={trying.data} />}
    </>
  )
}

type LinesProps = { text: string; onChange: (text: string) => void; problem: Problem | undefined; isReadOnly: boolean }

/** A text with its lines counted; a refusal stands below, and its line is marked. */
function Lines({ text, onChange, problem, isReadOnly }: LinesProps) {
  const id = useId()
  const [area, gutter] = [useRef<HTMLTextAreaElement>(null), useRef<HTMLDivElement>(null)]
  const lines = text.split('\n')
  const wrong = problem && lineOf(problem.message, text)
  const go = () => {
    const from = lines.slice(0, (wrong ?? 1) - 1).join('\n').length + (wrong === 1 ? 0 : 1)
    area.current?.focus()
    area.current?.setSelectionRange(from, from + (lines[(wrong ?? 1) - 1]?.length ?? 0))
  }
  return (
    <>
      <label htmlFor={id} className="sr-only">
        Policy in YAML
      </label>
      <div className="flex h-110 overflow-hidden rounded border border-line-strong bg-sunken font-mono text-xs leading-5">
        <div ref={gutter} aria-hidden className="w-10 shrink-0 overflow-hidden border-r border-line py-1.5 text-right text-subtle select-none">
          {lines.map((_, n) => (
            // oxlint-disable-next-line react/no-array-index-key -- a line is its number
            <div key={n} className={`pr-2 ${n + 1 === wrong ? 'bg-bad-soft font-medium text-bad' : ''}`}>
              {n + 1}
            </div>
          ))}
        </div>
        <textarea
          ref={area}
          id={id}
          value={text}
          wrap="off"
          spellCheck={false}
          readOnly={isReadOnly}
          aria-invalid={problem ? true : undefined}
          aria-describedby={problem && `${id}-error`}
          onChange={(event) => onChange(event.target.value)}
          onScroll={(event) => gutter.current && (gutter.current.scrollTop = event.currentTarget.scrollTop)}
          className="min-w-0 flex-1 resize-none overflow-auto bg-sunken px-2 py-1.5 text-fg"
        />
      </div>
      {problem && (
        <p id={`${id}-error`} role="alert" className="untrusted text-bad">
          {wrong !== undefined && (
            <button type="button" onClick={go} className="mr-2 min-h-6 cursor-pointer font-medium underline">
              Line {wrong}
            </button>
          )}
          {plain(problem.message)}
        </p>
      )}
    </>
  )
}

/** What it would have found and done, had it held. */
function Tried({ tried }: { tried: PolicyTried }) {
  return (
    <Section title="Had it held for the last 24 hours" aside={<span className="text-xs text-muted">{count(tried.sandboxes, 'sandbox', 'sandboxes')}, {count(tried.events, 'event')}{tried.truncated && '; there were more'}</span>}>
      <p role="status" className="px-3 py-2">
        It would have found: {sumsOf(tried.findings, KIND_WORDS)}. It would have done:{' '}
        {sumsOf(tried.interventions, DO_WORDS)}.
      </p>
      {tried.sandboxes === 0 && <Quiet>No sandbox of this project ran in that time, so this says nothing of it.</Quiet>}
      <ul>
        {tried.runs.flatMap(({ sandbox_id, findings }) =>
          findings.map(({ kind, severity, number, text, seqs, at, do: what, held }) => (
            <li key={`${sandbox_id} ${kind} ${number}`} className="flex flex-wrap items-center gap-x-3 border-t border-line px-3 py-1.5">
              <Badge tone={SEVERITY_TONES[severity]}>{severity}</Badge>
              <span className="font-medium">{KIND_WORDS[kind]}</span>
              <span className="untrusted min-w-0 text-muted">{plain(text)}</span>
              <span className="text-xs">{what ? `${DO_WORDS[what]}${held ? `, held back: ${held.replaceAll('_', ' ')}` : ''}` : 'no rule fits'}</span>
              <span className="ml-auto text-xs text-muted">
                <Ago at={at} />
              </span>
              <SandboxLink id={sandbox_id} event={seqs.at(-1)} />
            </li>
          )),
        )}
      </ul>
    </Section>
  )
}

function sumsOf(sums: Record<string, number>, names: Record<string, string>): string {
  const words = Object.entries(sums).map(([kind, n]) => `${n} × ${names[kind] ?? nameOf(kind)}`)
  return words.join(', ') || 'nothing'
}
