import { useQuery } from '@tanstack/react-query'
import type { PhaseComment, SpecPhase } from '../../api/types'
import { nameOf, plain } from '../../ui/plain'
import { Section } from '../../ui/Section'
import { Ago } from '../../ui/Time'
import { specPhase } from './queries'

const DECISIONS: Record<PhaseComment['decision'], [string, string]> = {
  approved: ['approved', 'text-ok'],
  changes_requested: ['asked for changes to', 'text-warn'],
  edited: ['wrote', 'text-run'],
}

/** What people decided about a phase, newest first; nothing where nobody did. */
export function Comments({ id, phase, isBegun }: { id: string; phase: SpecPhase; isBegun: boolean }) {
  const { data } = useQuery({ ...specPhase(id, phase), enabled: isBegun })
  if (!data || data.comments.length === 0) return null
  return (
    <Section title="Decisions">
      <ul>
        {data.comments.toReversed().map((comment) => (
          <Row key={comment.n} comment={comment} />
        ))}
      </ul>
    </Section>
  )
}

function Row({ comment: { decision, actor, attempt, comment, created_at } }: { comment: PhaseComment }) {
  const [words, tone] = DECISIONS[decision]
  return (
    <li className="border-b border-line px-3 py-1.5 last:border-b-0">
      <p className="flex flex-wrap items-baseline gap-x-1.5">
        <span className="untrusted font-medium">{nameOf(actor)}</span>
        <span className={tone}>{words}</span>
        <span>attempt {attempt}</span>
        <span className="ml-auto text-xs text-muted">
          <Ago at={created_at} />
        </span>
      </p>
      {comment && <p className="untrusted text-muted">{plain(comment)}</p>}
    </li>
  )
}
