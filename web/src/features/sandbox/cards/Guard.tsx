import { GitMerge, MessageSquareWarning, ShieldAlert, ShieldCheck, ShieldQuestionMark, type LucideIcon } from 'lucide-react'
import { array, field, flag, number, text } from '../../../live/fields'
import type { LogEvent } from '../../../live/log'
import type { Row } from '../../../live/rows'
import { nameOf, oneLine, plain } from '../../../ui/plain'
import { Card, Title, useOpen, Well, type Tone } from './Card'

const META_CHARS = 200
const FILES_SHOWN = 10

type Said = { icon: LucideIcon; title: string; tone?: Tone; words?: string | undefined; meta?: (string | undefined)[]; more?: string | undefined }

/** What Guardian or Conductor found, said or saw happen. */
export function GuardCard({ row, event }: { row: Row; event: LogEvent }) {
  const said = sayingOf(event)
  const [isOpen, onToggle] = useOpen(row.key)
  const meta = oneLine((said.meta ?? []).filter((part) => part !== undefined).join(' · '), META_CHARS)
  return (
    <Card
      row={row}
      icon={said.icon}
      tone={said.tone ?? 'guard'}
      title={<Title>{said.title}</Title>}
      meta={meta}
      events={[event]}
      {...(said.more !== undefined && { fold: { isOpen, onToggle } })}
    >
      {said.words !== undefined && <p className="untrusted border-l-2 border-guard pl-2 whitespace-pre-wrap">{plain(said.words)}</p>}
      {isOpen && said.more !== undefined && <Well text={said.more} />}
    </Card>
  )
}

function sayingOf({ type, data }: LogEvent): Said {
  const of = (name: string) => text(data, name)
  const spoken = (name: string) => of(name)?.replaceAll('_', ' ')
  switch (type) {
    case 'guardian.finding':
      return {
        icon: ShieldAlert,
        tone: of('severity') === 'critical' ? 'bad' : 'guard',
        title: `Guardian found: ${nameOf(spoken('kind') ?? 'something')}`,
        words: of('text'),
        meta: [of('severity'), decision(data), shown(data)],
      }
    case 'guardian.cleared':
      return { icon: ShieldCheck, title: `Over: ${nameOf(spoken('kind') ?? 'a finding')}`, meta: [of('cleared_by') === 'ended' ? 'the sandbox ended' : 'it does otherwise now'] }
    case 'guardian.steering.intervention':
      return {
        icon: of('mode') === 'suggest' ? ShieldQuestionMark : MessageSquareWarning,
        title: `Guardian ${of('mode') === 'suggest' ? 'suggests' : 'acts'}: ${nameOf(of('do') ?? 'something')}`,
        words: of('text'),
        meta: [by(data), alignment(data)],
        more: of('reason'),
      }
    case 'guardian.judgement':
      return judgement(data)
    case 'guardian.intervention.approved':
      return { icon: ShieldCheck, title: 'Suggestion approved', meta: [by(data), of('reason')] }
    case 'guardian.intervention.dismissed':
      return { icon: ShieldCheck, title: 'Suggestion dismissed', meta: [by(data), of('reason')] }
    case 'guardian.intervention.effect':
      return { icon: ShieldCheck, title: EFFECTS[of('effect') ?? ''] ?? 'Effect of the intervention', meta: [of('by'), alignment(data)] }
    case 'conductor.conflict.found':
      return {
        icon: GitMerge,
        tone: 'warn',
        title: `In the way of ${oneLine(text(field(data, 'with'), 'title') ?? 'another task', META_CHARS)}`,
        words: clashes(data),
        meta: [CONFLICTS[of('kind') ?? ''] ?? of('kind')],
      }
    case 'conductor.conflict.cleared':
      return { icon: GitMerge, title: 'No longer in the way of another', meta: [spoken('reason')] }
    default:
      return { icon: ShieldAlert, title: nameOf(type), words: of('text') ?? of('reason'), meta: [of('kind'), of('state')] }
  }
}

const EFFECTS: Record<string, string> = { changed: 'The intervention helped', unchanged: 'The intervention did not help', unknown: 'Nobody can tell whether the intervention helped' }
const CONFLICTS: Record<string, string> = { files: 'same files', lines: 'same lines', merge: 'branches do not merge' }

/** What a model thinks of its course. One that failed says nothing, and least of all that it is well. */
function judgement(data: unknown): Said {
  const said = field(data, 'judgement')
  const score = number(said, 'alignment_score')
  if (score === undefined) return { icon: ShieldQuestionMark, title: 'The judge gave no answer', meta: [text(data, 'failure')?.replaceAll('_', ' '), text(data, 'error')] }
  const recommendation = text(said, 'steering_recommendation')
  return {
    icon: recommendation === undefined ? ShieldCheck : ShieldAlert,
    title: recommendation === undefined ? (flag(said, 'trajectory_aligned') === true ? 'Judged: on its course' : 'Judged: in doubt') : `Judged: needs ${nameOf(text(said, 'steering_type') ?? 'steering')}`,
    words: recommendation ?? text(said, 'trajectory_summary'),
    meta: [`alignment ${score.toFixed(2)}`, text(data, 'model')],
    more: recommendation === undefined ? undefined : text(said, 'trajectory_summary'),
  }
}

function decision(data: unknown): string | undefined {
  const held = text(data, 'held')?.replaceAll('_', ' ')
  const what = text(data, 'do')
  return held !== undefined ? `held back: ${held}` : what
}

function shown(data: unknown): string | undefined {
  const seqs = array(data, 'seqs').filter((seq) => typeof seq === 'number')
  return seqs.length === 0 ? undefined : `shown by ${seqs.length === 1 ? 'event' : 'events'} ${seqs.slice(-5).join(', ')}`
}

function by(data: unknown): string | undefined {
  const who = text(data, 'by')
  return who === undefined ? undefined : `by ${nameOf(who)}`
}

function alignment(data: unknown): string | undefined {
  const value = number(data, 'alignment')
  return value === undefined ? undefined : `alignment ${value.toFixed(2)}`
}

function clashes(data: unknown): string | undefined {
  const files = array(data, 'files').slice(0, FILES_SHOWN)
  const lines = files.map((file) => {
    const spans = array(file, 'lines').map((span) => `${number(span, 'first') ?? '?'}–${number(span, 'last') ?? 'end'}`)
    return `${nameOf(text(file, 'path') ?? '')}${spans.length > 0 ? ` ${spans.join(', ')}` : ''}`
  })
  return lines.length === 0 ? undefined : lines.join('\n')
}
