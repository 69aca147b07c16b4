import { Check, CircleAlert, CircleDashed, CircleDot, Clock, OctagonAlert, type LucideIcon } from 'lucide-react'

export type Tone = 'muted' | 'run' | 'ok' | 'warn' | 'bad' | 'guard'

const TONES: Record<Tone, [string, LucideIcon]> = {
  muted: ['bg-sunken text-muted', CircleDashed],
  run: ['bg-run-soft text-run', CircleDot],
  ok: ['bg-ok-soft text-ok', Check],
  warn: ['bg-warn-soft text-warn', CircleAlert],
  bad: ['bg-bad-soft text-bad', OctagonAlert],
  guard: ['bg-guard-soft text-guard', CircleDot],
}

/** A word with its tone, never the tone alone. */
export function Badge({ tone, isWaiting, children }: { tone: Tone; isWaiting?: boolean; children: string }) {
  const [look, Shown] = TONES[tone]
  const Icon = isWaiting ? Clock : Shown
  return (
    <span className={`inline-flex h-5 items-center gap-1 rounded-full px-2 text-2xs font-medium whitespace-nowrap ${look}`}>
      <Icon size={12} aria-hidden />
      {children}
    </span>
  )
}
