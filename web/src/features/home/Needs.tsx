import { Link } from '@tanstack/react-router'
import { ArchiveX, Clock, Coins, LockKeyhole, ShieldQuestionMark, Stethoscope, X, type LucideIcon } from 'lucide-react'
import type { Diagnosis, GuardianIntervention, Sandbox, Spec, Task } from '../../api/types'
import { conflictOf, conflictWords } from '../../parts/conflict'
import { oneLine, shortId } from '../../ui/plain'
import { Quiet } from '../../ui/Section'
import { Ago } from '../../ui/Time'
import type { Doing } from '../../live/doing'

const CHARS = 160

export type Need = { words: string; since: string } & (
  | { kind: 'asks' | 'budget' | 'failed'; task: Task }
  | { kind: 'gate'; spec: Spec }
  | { kind: 'suggestion'; intervention: GuardianIntervention }
  | { kind: 'diagnosis'; diagnosis: Diagnosis }
  | { kind: 'unkept'; sandbox: Sandbox }
)

/** What supervision has for a person to decide. */
export type Supervised = { suggestions: readonly GuardianIntervention[]; diagnoses: readonly Diagnosis[] }

/** What cannot go on without a person, oldest first. */
export function needs(
  held: Task[],
  pending: Task[],
  failed: Task[],
  acts: ReadonlyMap<string, Doing>,
  gates: Spec[] = [],
  { suggestions, diagnoses }: Supervised = { suggestions: [], diagnoses: [] },
  unkept: readonly Sandbox[] = [],
): Need[] {
  const found: Need[] = []
  for (const sandbox of unkept) {
    found.push({ kind: 'unkept', sandbox, words: sandbox.rescue?.error ?? '', since: sandbox.ended_at ?? sandbox.created_at })
  }
  for (const intervention of suggestions) {
    found.push({ kind: 'suggestion', intervention, words: intervention.finding ?? intervention.text, since: intervention.created_at })
  }
  for (const diagnosis of diagnoses) found.push({ kind: 'diagnosis', diagnosis, words: diagnosis.root_cause, since: diagnosis.created_at })
  for (const spec of gates) {
    found.push({ kind: 'gate', spec, words: `${spec.current_phase} of the spec`, since: spec.updated_at })
  }
  for (const task of held) {
    const act = task.sandbox_id ? acts.get(task.sandbox_id) : undefined
    if (act?.waits) found.push({ kind: 'asks', task, words: act.words, since: act.at })
  }
  for (const task of [...held, ...pending]) {
    if (task.waiting_reason) found.push({ kind: 'budget', task, words: task.waiting_reason, since: task.updated_at })
  }
  for (const task of failed) {
    const conflict = conflictOf(task)
    const words = conflict ? conflictWords(conflict) : (task.error_message ?? 'It failed, and no retry is left.')
    found.push({ kind: 'failed', task, words, since: task.completed_at ?? task.updated_at })
  }
  return found.toSorted((a, b) => a.since.localeCompare(b.since))
}

export const KINDS: Record<Need['kind'], [LucideIcon, string, string]> = {
  asks: [Clock, 'text-warn', 'waits for an answer'],
  budget: [Coins, 'text-warn', 'waits for a decision'],
  failed: [X, 'text-bad', 'failed for good'],
  gate: [LockKeyhole, 'text-warn', 'waits for approval'],
  suggestion: [ShieldQuestionMark, 'text-guard', 'the Guardian suggests'],
  diagnosis: [Stethoscope, 'text-guard', 'a ticket is stuck'],
  unkept: [ArchiveX, 'text-bad', 'its work is not kept'],
}

export function idOf(need: Need): string {
  switch (need.kind) {
    case 'gate':
      return need.spec.id
    case 'suggestion':
      return need.intervention.id
    case 'diagnosis':
      return need.diagnosis.id
    case 'unkept':
      return need.sandbox.id
    default:
      return need.task.id
  }
}

/** What it is about, in a few words. */
export function titleOf(need: Need): string {
  switch (need.kind) {
    case 'gate':
      return need.spec.title
    case 'suggestion':
      return need.intervention.do === 'nudge' ? 'Tell the agent' : `To ${need.intervention.do}`
    case 'diagnosis':
      return `${need.diagnosis.failed_tasks} of ${need.diagnosis.total_tasks} tasks failed`
    case 'unkept':
      return `Sandbox ${shortId(need.sandbox.id)}`
    default:
      return need.task.title
  }
}

export function Needs({ items, hasMore }: { items: Need[]; hasMore: boolean }) {
  if (items.length === 0) return <Quiet>Nothing waits for you.</Quiet>
  return (
    <>
      <ul>
        {items.map((need) => (
          <Row key={`${need.kind} ${idOf(need)}`} need={need} />
        ))}
      </ul>
      {hasMore && (
        <Quiet>
          <Link to="/board" search={{ view: 'list', status: 'failed' }} className="text-accent underline">
            All tasks that failed
          </Link>
        </Quiet>
      )}
    </>
  )
}

const TITLE = 'untrusted min-w-0 font-medium hover:underline'
const ACT = 'inline-flex min-h-6 items-center text-accent hover:underline'

function Row({ need }: { need: Need }) {
  const [Icon, tone, state] = KINDS[need.kind]
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-0.5 border-b border-line px-3 py-1.5 last:border-b-0">
      <span className={`inline-flex items-center gap-1.5 text-xs font-medium ${tone}`}>
        <Icon size={14} aria-hidden />
        {state}
      </span>
      <Where need={need} className={TITLE}>
        {oneLine(titleOf(need), CHARS)}
      </Where>
      <span className="untrusted min-w-0 flex-1 basis-60 truncate text-muted">{oneLine(need.words, CHARS)}</span>
      <span className="text-xs text-muted">
        <Ago at={need.since} />
      </span>
      <Act need={need} />
    </li>
  )
}

const ACTS: Record<Need['kind'], string> = {
  asks: 'Answer',
  budget: 'Decide',
  failed: 'See why',
  gate: 'Review',
  suggestion: 'Decide',
  diagnosis: 'Decide',
  unkept: 'Decide',
}

/** Where it is dealt with. */
function Act({ need }: { need: Need }) {
  if (need.kind === 'asks' && need.task.sandbox_id) {
    return (
      <Link to="/sandboxes/$id" params={{ id: need.task.sandbox_id }} className={ACT}>
        Answer
      </Link>
    )
  }
  return (
    <Where need={need} className={ACT}>
      {ACTS[need.kind]}
    </Where>
  )
}

type WhereProps = { need: Need; className: string; children: string; onClick?: () => void }

/** A link to the page that shows it. */
export function Where({ need, ...link }: WhereProps) {
  switch (need.kind) {
    case 'gate':
      return <Link to="/specs/$id" params={{ id: need.spec.id }} search={{ phase: need.spec.current_phase }} {...link} />
    case 'suggestion':
      return <Link to="/monitor" search={{ tab: 'findings' }} {...link} />
    case 'diagnosis':
      return <Link to="/monitor" search={{ tab: 'diagnoses' }} {...link} />
    case 'unkept':
      return <Link to="/sandboxes/$id" params={{ id: need.sandbox.id }} {...link} />
    default:
      return <Link to="/tasks/$id" params={{ id: need.task.id }} {...link} />
  }
}
