import {
  Ban,
  Check,
  CircleDashed,
  CircleDot,
  CircleDotDashed,
  CircleSlash,
  Clock,
  Hourglass,
  RotateCcw,
  Unlink,
  X,
  type LucideIcon,
} from 'lucide-react'

type Tone = 'muted' | 'guard' | 'run' | 'ok' | 'warn' | 'bad'

const TONES: Record<Tone, string> = {
  muted: 'bg-sunken text-muted',
  guard: 'bg-guard-soft text-guard',
  run: 'bg-run-soft text-run',
  ok: 'bg-ok-soft text-ok',
  warn: 'bg-warn-soft text-warn',
  bad: 'bg-bad-soft text-bad',
}

const STATES = {
  pending: ['muted', CircleDashed],
  creating: ['guard', CircleDotDashed],
  assigned: ['guard', CircleDotDashed],
  running: ['run', CircleDot],
  completed: ['ok', Check],
  failed: ['bad', X],
  lost: ['bad', Unlink],
  cancelled: ['muted', CircleSlash],
  terminated: ['muted', Ban],
  queued: ['muted', Hourglass],
  delivered: ['run', CircleDotDashed],
  injected: ['ok', CircleDot],
  acknowledged: ['ok', Check],
  expired: ['warn', CircleSlash],
  draft: ['muted', CircleDashed],
  executing: ['run', CircleDot],
  waiting: ['warn', Clock],
  passed: ['ok', Check],
  approved: ['ok', Check],
  stale: ['warn', RotateCcw],
} satisfies Record<string, [Tone, LucideIcon]>

/** A state is always icon, word and colour, never colour alone. */
export function State({ state }: { state: keyof typeof STATES }) {
  const [tone, Icon] = STATES[state]
  return (
    <span
      className={`inline-flex h-5 items-center gap-1 rounded-full px-2 text-2xs font-medium whitespace-nowrap ${TONES[tone]}`}
    >
      <Icon size={12} aria-hidden className={state === 'running' || state === 'executing' ? 'pulse' : undefined} />
      {state}
    </span>
  )
}
