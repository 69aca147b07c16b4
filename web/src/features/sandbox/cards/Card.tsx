import { Braces, ChevronRight, type LucideIcon } from 'lucide-react'
import { createContext, useContext, type ReactNode } from 'react'
import type { LogEvent } from '../../../live/log'
import type { Row } from '../../../live/rows'
import { plain } from '../../../ui/plain'
import { Clock } from '../../../ui/Time'

/** What cards share. What is open is kept here, for a card that scrolls out of sight is gone. */
export type Cards = {
  sandboxId: string
  opened: ReadonlyMap<string, boolean>
  onOpen: (key: string, isOpen: boolean) => void
  selected: number | undefined
  onSelect: (seq: number) => void
  onFile: (path: string, seq: number) => void
}

export const CardsContext = createContext<Cards>({
  sandboxId: '',
  opened: new Map(),
  onOpen: () => undefined,
  selected: undefined,
  onSelect: () => undefined,
  onFile: () => undefined,
})

export function useOpen(key: string, initially = false): [boolean, () => void] {
  const { opened, onOpen } = useContext(CardsContext)
  const isOpen = opened.get(key) ?? initially
  return [isOpen, () => onOpen(key, !isOpen)]
}

export type Tone = 'plain' | 'speech' | 'run' | 'ok' | 'warn' | 'bad' | 'guard'

const TONES: Record<Tone, string> = {
  plain: 'text-subtle',
  speech: 'text-accent',
  run: 'text-run',
  ok: 'text-ok',
  warn: 'text-warn',
  bad: 'text-bad',
  guard: 'text-guard',
}

type Props = {
  row: Row
  icon: LucideIcon
  tone?: Tone
  title: ReactNode
  /** Figures at the end of the title's line. */
  meta?: ReactNode
  /** With it, the title opens and closes what is folded. */
  fold?: { isOpen: boolean; onToggle: () => void }
  /** What the card was made of, shown as data when asked for. */
  events: readonly (LogEvent | undefined)[]
  children?: ReactNode
}

/** One thing that happened: when, what, and what can be opened below it. */
export function Card({ row, icon: Icon, tone = 'plain', title, meta, fold, events, children }: Props) {
  const { selected, onSelect } = useContext(CardsContext)
  const [isRaw, toggleRaw] = useOpen(`${row.key}-raw`)
  const isSelected = selected === row.seq
  return (
    <article className={`flex gap-2 border-l-2 py-0.5 pr-2 pl-2 ${isSelected ? 'border-accent bg-accent-soft' : 'border-transparent'}`}>
      <button
        type="button"
        title="Link to this event"
        aria-current={isSelected || undefined}
        onClick={() => onSelect(row.seq)}
        className="h-6 shrink-0 cursor-pointer font-mono text-2xs text-subtle hover:text-fg hover:underline"
      >
        <Clock at={row.at} />
      </button>
      <Icon size={14} aria-hidden className={`mt-[5px] shrink-0 ${TONES[tone]}`} />
      <div className="flex min-w-0 flex-1 flex-col gap-0.5">
        <div className="flex min-h-6 min-w-0 flex-wrap items-center gap-x-2">
          {fold ? (
            <button
              type="button"
              aria-expanded={fold.isOpen}
              onClick={fold.onToggle}
              className="flex min-h-6 max-w-full min-w-0 cursor-pointer items-center gap-1 text-left hover:text-accent"
            >
              <ChevronRight size={13} aria-hidden className={`shrink-0 text-subtle ${fold.isOpen ? 'rotate-90' : ''}`} />
              {title}
            </button>
          ) : (
            title
          )}
          {meta && <span className="flex flex-wrap items-center gap-x-2 text-2xs text-subtle tabular-nums">{meta}</span>}
        </div>
        {children}
        {isRaw && <Raw events={events} />}
      </div>
      <button
        type="button"
        aria-label="Data"
        aria-expanded={isRaw}
        title="Data as it was sent"
        onClick={toggleRaw}
        className="inline-flex size-6 shrink-0 cursor-pointer items-center justify-center rounded text-subtle hover:bg-raised hover:text-fg"
      >
        <Braces size={12} aria-hidden />
      </button>
    </article>
  )
}

export function Title({ children, isCode = false }: { children: ReactNode; isCode?: boolean }) {
  return <span className={`min-w-0 truncate font-medium ${isCode ? 'font-mono text-xs' : ''}`}>{children}</span>
}

/** Text of an agent or its tools that is no prose. */
export function Well({ text, label }: { text: string; label?: string }) {
  return (
    <div className="flex flex-col gap-0.5">
      {label && <span className="text-2xs text-subtle">{label}</span>}
      <pre className="untrusted max-h-96 overflow-auto rounded bg-sunken px-2 py-1 font-mono text-xs">{plain(text)}</pre>
    </div>
  )
}

const RAW_CHARS_MAX = 50_000

function Raw({ events }: { events: readonly (LogEvent | undefined)[] }) {
  const shown = events.filter((event) => event !== undefined)
  return shown.map((event) => {
    const json = JSON.stringify(event.data, null, 2) ?? ''
    return (
      <Well
        key={event.seq}
        label={`${plain(event.type)} · ${event.seq}`}
        text={json.length > RAW_CHARS_MAX ? `${json.slice(0, RAW_CHARS_MAX)}…` : json}
      />
    )
  })
}
