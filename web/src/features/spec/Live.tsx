import { Link } from '@tanstack/react-router'
import type { PhaseAttempt } from '../../api/types'
import { nameOf, shortId } from '../../ui/plain'
import { Quiet, Section } from '../../ui/Section'
import { Clock } from '../../ui/Time'
import type { Act } from './progress'

/** What the sandbox of an attempt does, or did last. */
export function Live({ last, acts }: { last: PhaseAttempt; acts: Act[] }) {
  if (!last.task_id) return null
  const isRunning = last.state === 'running'
  return (
    <Section
      title={isRunning ? 'Live' : 'Last seen'}
      aside={
        last.sandbox_id && (
          <Link
            to="/sandboxes/$id"
            params={{ id: last.sandbox_id }}
            title={last.sandbox_id}
            className="ml-auto inline-flex min-h-6 items-center text-accent hover:underline"
          >
            Sandbox {shortId(last.sandbox_id)}
          </Link>
        )
      }
    >
      {acts.length === 0 ? (
        <Quiet>{isRunning ? 'Waits for its sandbox.' : 'Nothing is known of it any more.'}</Quiet>
      ) : (
        <ol className="px-3 py-1.5">
          {acts.map((act) => (
            <li key={act.seq} className="flex gap-2 py-0.5">
              <span className="shrink-0 font-mono text-xs leading-5 text-muted">
                <Clock at={act.at} />
              </span>
              <span className="untrusted line-clamp-2 min-w-0">{act.words}</span>
            </li>
          ))}
        </ol>
      )}
      {last.commit && (
        <p className="border-t border-line px-3 py-1.5 text-xs text-muted">
          held against commit <code className="untrusted font-mono">{nameOf(last.commit).slice(0, 8)}</code>
        </p>
      )}
    </Section>
  )
}
