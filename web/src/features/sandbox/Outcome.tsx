import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CircleCheck, CircleHelp, CircleSlash, CircleX, type LucideIcon } from 'lucide-react'
import type { Sandbox, SandboxStatus, Task } from '../../api/types'
import { array, flag, text } from '../../live/fields'
import { nameOf, oneLine } from '../../ui/plain'
import { checkedAfter, type Checked } from './checked'
import { taskEvidence } from './queries'

const WORDS_CHARS = 300

type Look = { icon: LucideIcon; className: string; words: string }

const LOOKS: Record<SandboxStatus, Look | undefined> = {
  creating: undefined,
  running: undefined,
  completed: { icon: CircleCheck, className: 'bg-ok-soft text-ok', words: 'Completed' },
  failed: { icon: CircleX, className: 'bg-bad-soft text-bad', words: 'Failed' },
  lost: { icon: CircleX, className: 'bg-bad-soft text-bad', words: 'Lost: its worker fell silent' },
  terminated: { icon: CircleSlash, className: 'bg-sunken text-muted', words: 'Stopped' },
}

/** Of work that is done while checks stand between it and the completion of its task. */
const CHECKED: Record<Checked, Look> = {
  passed: { icon: CircleCheck, className: 'bg-ok-soft text-ok', words: 'Completed, and its checks passed' },
  failed: { icon: CircleX, className: 'bg-bad-soft text-bad', words: 'Its work was done, but its checks failed' },
  open: { icon: CircleHelp, className: 'bg-warn-soft text-warn', words: 'Its work was done, unverified: no check of it has ended' },
}

/** How it ended, what proves it, and where the work is. */
export function Outcome({ sandbox, task }: { sandbox: Sandbox; task: Task | null | undefined }) {
  const isWorkDone = sandbox.status === 'completed' && sandbox.end_reason === 'work_completed'
  const evidence = useQuery({ ...taskEvidence(task?.id ?? ''), enabled: isWorkDone && Boolean(task) })
  const look = isWorkDone ? CHECKED[evidence.data ? checkedAfter(evidence.data.attempts, sandbox.id) : 'open'] : LOOKS[sandbox.status]
  if (!look || (isWorkDone && evidence.isLoading)) return null
  // The task may be with another sandbox by now, and its outcome is that one's.
  const own = task?.sandbox_id === sandbox.id ? task : undefined
  const proof = sandbox.status === 'completed' && !isWorkDone ? proofOf(own) : undefined
  const isProven = proof === undefined || text(own?.result, 'verification') === 'verified'
  const { icon: Icon, className, words } = isProven ? look : { ...CHECKED.open, words: look.words }
  return (
    <div role="status" className={`flex shrink-0 flex-wrap items-center gap-x-3 border-b border-line px-4 py-1 ${className}`}>
      <span className="inline-flex items-center gap-1.5 font-medium">
        <Icon size={14} aria-hidden />
        {words}
        {proof !== undefined && `, ${proof}`}
      </span>
      {isWorkDone && task && (
        <Link to="/tasks/$id" params={{ id: task.id }} search={{ tab: 'proof' }} className="inline-flex min-h-6 items-center underline">
          Its checks
        </Link>
      )}
      {own?.error_message && <span className="untrusted">{oneLine(own.error_message, WORDS_CHARS)}</span>}
      <span className={`untrusted ${sandbox.rescue ? 'text-bad' : 'text-fg'}`}>{oneLine(keptWords(sandbox), WORDS_CHARS)}</span>
    </div>
  )
}

/** Which checks passed, or that none did. */
function proofOf(task: Task | undefined): string | undefined {
  const told = text(task?.result, 'verification')
  const checks = array(task?.result, 'checks')
  if (told === undefined) return undefined
  if (checks.length === 0) return `${nameOf(told)}: no check was declared`
  const passed = checks.filter((check) => flag(check, 'passed') === true).length
  return `${nameOf(told)}: ${passed} of ${checks.length} checks passed`
}

function keptWords({ kept, place, rescue }: Sandbox): string {
  const what = kept ? 'A part of its work' : 'Its work'
  if (rescue && (place === 'discarded' || place === 'gone')) return `${what} could not be kept and was discarded: ${rescue.error}`
  if (rescue && place === 'unkept') return `${what} could not be kept, and nothing is deleted until you decide: ${rescue.error}`
  if (rescue) return `Its work is not kept yet, and it is tried again: ${rescue.error}`
  if (!kept) return 'What is kept of its work is not known yet.'
  if (!kept.kept) return 'There was no work beyond what it started from.'
  const files = kept.files === 1 ? '1 file' : `${kept.files} files`
  return `Kept: ${files} on ${nameOf(kept.ref ?? 'its branch')} at ${nameOf(kept.commit?.slice(0, 12) ?? '')}`
}
