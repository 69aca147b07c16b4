import { useInfiniteQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { asProblem } from '../../api/problem'
import type { GuardianFinding, GuardianIntervention } from '../../api/types'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { AreaField } from '../../ui/Field'
import { ErrorPanel } from '../../ui/panels'
import { nameOf, plain } from '../../ui/plain'
import { Section } from '../../ui/Section'
import { Ago } from '../../ui/Time'
import { Badge } from './Badge'
import type { TabProps } from './MonitorPage'
import { List, Over, ProjectChoice, SandboxLink, TaskLink, useDeed, useMayAct } from './parts'
import { approve, dismiss, findingList, interventionList } from './queries'
import { DO_WORDS, figure, KIND_WORDS, SEVERITY_TONES, STATE_WORDS } from './words'

/** What was found in the work of agents, and what was said or done about it. */
export function Findings({ search, onSearch }: TabProps) {
  const { project, all } = search
  const interventions = useInfiniteQuery(interventionList(project))
  const findings = useInfiniteQuery(findingList(project, Boolean(all)))
  const known = findings.data?.pages.flatMap((page) => page.items) ?? []
  return (
    <>
      <ProjectChoice isAllOffered chosen={project} onChoose={(chosen) => onSearch({ project: chosen })} />
      <Section title="Interventions, newest first">
        <List list={interventions} label="interventions" empty="Nothing was said or done about any agent.">
          {(items) => (
            <ul>
              {items.map((one) => (
                <Row key={one.id} intervention={one} seq={known.find(({ id }) => id === one.finding_id)?.seq} />
              ))}
            </ul>
          )}
        </List>
      </Section>
      <Section
        title="Findings, newest first"
        aside={
          <Over isOn={Boolean(all)} onChange={(isOn) => onSearch({ all: isOn ? true : undefined })}>
            also those that are over
          </Over>
        }
      >
        <List list={findings} label="findings" empty={all ? 'Nothing was ever found.' : 'Nothing that was found goes on.'}>
          {(items) => (
            <ul>
              {items.map((finding) => (
                <Found key={finding.id} finding={finding} />
              ))}
            </ul>
          )}
        </List>
      </Section>
    </>
  )
}

const ROW = 'flex flex-col gap-1 border-b border-line px-3 py-2 last:border-b-0'
const LINE = 'flex flex-wrap items-center gap-x-3 gap-y-0.5'
const META = 'flex flex-wrap items-center gap-x-3 text-xs text-muted tabular-nums'

function Row({ intervention, seq }: { intervention: GuardianIntervention; seq: number | undefined }) {
  const { state, kind, task_id, sandbox_id, created_at, created_by } = intervention
  const [tone, words] = STATE_WORDS[state]
  return (
    <li className={ROW}>
      <div className={LINE}>
        <Badge tone={tone} isWaiting={state === 'suggested'}>
          {words}
        </Badge>
        <span className="font-medium">{DO_WORDS[intervention.do]}</span>
        {kind && <span className="text-muted">{KIND_WORDS[kind]}</span>}
        {task_id && <TaskLink id={task_id} />}
        <span className="ml-auto text-xs text-muted">
          <Ago at={created_at} />
        </span>
      </div>
      {intervention.text && <p className="untrusted border-l-2 border-guard pl-2 whitespace-pre-wrap">{plain(intervention.text)}</p>}
      <div className={META}>
        {intervention.finding && <span className="untrusted">because {plain(intervention.finding)}</span>}
        {!intervention.finding && <span className="untrusted">by {nameOf(created_by)}</span>}
        <Delivery of={intervention} />
        <Effect of={intervention} />
        <SandboxLink id={sandbox_id} event={seq}>
          Open at that moment
        </SandboxLink>
      </div>
      {intervention.error && <p className="untrusted text-xs text-bad">{plain(intervention.error)}</p>}
      {state === 'suggested' && <Decide intervention={intervention} />}
    </li>
  )
}

/** How far the words have come, with the last time that is known. */
function Delivery({ of }: { of: GuardianIntervention }) {
  const steps: [string, string | null | undefined][] = [
    ['decided', of.decided_at],
    ['delivered', of.delivered_at],
    ['before the agent', of.injected_at],
    ['acted on', of.acknowledged_at],
  ]
  const done = steps.filter(([, at]) => at)
  if (done.length === 0 && !of.decided_because) return null
  return (
    <span>
      {done.map(([word, at], n) => (
        <span key={word}>
          {n > 0 && ' → '}
          {word} <Ago at={at} />
        </span>
      ))}
      {of.decided_by && <span className="untrusted"> by {nameOf(of.decided_by)}</span>}
      {of.decided_because && <span className="untrusted">: {plain(of.decided_because)}</span>}
    </span>
  )
}

const EFFECTS = { changed: 'it helped', unchanged: 'it did not help', unknown: 'nobody can tell whether it helped' }

function Effect({ of }: { of: GuardianIntervention }) {
  if (!of.effect) return null
  const [before, after] = [of.alignment_before, of.alignment_after]
  return (
    <span className={of.effect === 'changed' ? 'text-ok' : of.effect === 'unchanged' ? 'text-warn' : ''}>
      {EFFECTS[of.effect]}
      {of.effect_by && <span className="untrusted">: {plain(of.effect_by)}</span>}
      {typeof before === 'number' && typeof after === 'number' && ` (alignment ${figure(before)} → ${figure(after)})`}
    </span>
  )
}

/** A suggestion is made as it is, in other words, or not at all. What an agent was told cannot be taken back. */
function Decide({ intervention: { id, text, do: what } }: { intervention: GuardianIntervention }) {
  const mayAct = useMayAct()
  const [words, setWords] = useState<string>()
  const making = useDeed((changed: string | undefined) => approve(id, changed))
  const dropping = useDeed(() => dismiss(id))
  const isBusy = making.isPending || dropping.isPending
  const error = making.error ?? dropping.error
  if (!mayAct) return <p className="text-xs text-muted">To decide needs the role operator.</p>
  return (
    <>
      <div className="flex flex-wrap gap-2">
        <Button look="main" disabled={isBusy} onClick={() => making.mutate(undefined)}>
          {making.isPending ? 'Approving…' : 'Approve'}
        </Button>
        <Button disabled={isBusy} onClick={() => setWords(text)}>
          Other words…
        </Button>
        <Button disabled={isBusy} onClick={() => dropping.mutate(undefined)}>
          {dropping.isPending ? 'Dismissing…' : 'Dismiss'}
        </Button>
      </div>
      {error && <ErrorPanel error={asProblem(error)} />}
      {words !== undefined && (
        <Dialog
          title={`Approve in other words: ${DO_WORDS[what]}`}
          onClose={() => setWords(undefined)}
          actions={
            <Button
              look="main"
              disabled={words.trim() === ''}
              onClick={() => {
                setWords(undefined)
                making.mutate(words)
              }}
            >
              Approve
            </Button>
          }
        >
          <AreaField label="What is said" required rows={5} value={words} onChange={setWords} />
        </Dialog>
      )}
    </>
  )
}

function Found({ finding }: { finding: GuardianFinding }) {
  const { kind, severity, number, text, task_id, sandbox_id, found_at, cleared_at, cleared_by, seqs, seq } = finding
  return (
    <li className={ROW}>
      <div className={LINE}>
        <Badge tone={cleared_at ? 'muted' : SEVERITY_TONES[severity]}>{severity}</Badge>
        <span className="font-medium">{KIND_WORDS[kind]}</span>
        {number > 1 && <span className="text-muted">time {number}</span>}
        {task_id && <TaskLink id={task_id} />}
        <span className="ml-auto text-xs text-muted">
          <Ago at={found_at} />
        </span>
      </div>
      <p className="untrusted whitespace-pre-wrap">{plain(text)}</p>
      <div className={META}>
        {cleared_at ? (
          <span>
            over, <Ago at={cleared_at} />: {cleared_by === 'ended' ? 'the sandbox ended' : 'it does otherwise now'}
          </span>
        ) : (
          <span className="text-warn">goes on</span>
        )}
        <SandboxLink id={sandbox_id} event={seqs.at(-1) ?? seq}>
          Open at that moment
        </SandboxLink>
      </div>
    </li>
  )
}
