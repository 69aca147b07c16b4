import { Circle, CircleCheck, CircleX, Coins, GitCommitHorizontal, HeartPulse, RefreshCw, ShieldBan, SquareCheck, type LucideIcon } from 'lucide-react'
import { array, field, flag, number, text } from '../../../live/fields'
import type { LogEvent } from '../../../live/log'
import type { Row } from '../../../live/rows'
import { bytes, money, tokens } from '../../../ui/figures'
import { nameOf, oneLine } from '../../../ui/plain'
import { duration } from '../../../ui/time'
import { Card, useOpen, Well, type Tone } from './Card'

const WORDS_CHARS = 400
const META_CHARS = 200

type Said = { icon: LucideIcon; tone: Tone; title: string; words?: string | undefined; meta?: string | undefined; more?: string | undefined }

/** An event that is told in one line, with the rest folded. */
export function LineCard({ row, event }: { row: Row; event: LogEvent }) {
  const said = sayingOf(event)
  const [isOpen, onToggle] = useOpen(row.key, said.tone === 'bad')
  const title = (
    <span className="min-w-0 truncate">
      <span className="font-medium">{said.title}</span> <span className="text-muted">{oneLine(said.words ?? '', WORDS_CHARS)}</span>
    </span>
  )
  return (
    <Card
      row={row}
      icon={said.icon}
      tone={said.tone}
      title={title}
      meta={oneLine(said.meta ?? '', META_CHARS)}
      events={[event]}
      {...(said.more !== undefined && { fold: { isOpen, onToggle } })}
    >
      {isOpen && said.more !== undefined && <Well text={said.more} />}
    </Card>
  )
}

export function BeatsCard({ row }: { row: Extract<Row, { kind: 'beats' }> }) {
  const { count, first, last } = row
  const memory = number(last.data, 'memory_bytes')
  const processes = number(last.data, 'processes')
  const over = duration(Date.parse(last.at) - Date.parse(first.at))
  return (
    <Card
      row={row}
      icon={HeartPulse}
      title={<span className="text-subtle">{count === 1 ? 'Heartbeat' : `${count} heartbeats over ${over}`}</span>}
      meta={[memory !== undefined && bytes(memory), processes !== undefined && `${processes} processes`].filter(Boolean).join(' · ')}
      events={[last]}
    />
  )
}

export function HoleCard({ count }: { count: number }) {
  return <p className="px-4 py-1 text-warn">{count === 1 ? 'One event' : `${count} events`} in between not loaded yet</p>
}

/** What an event says, by what it is; an unknown one says what its data says. */
function sayingOf(event: LogEvent): Said {
  const { type, data } = event
  const of = (name: string) => text(data, name)
  switch (type) {
    case 'agent.completed':
    case 'continuous.completed':
      return completed(event)
    case 'agent.failed':
    case 'agent.error':
    case 'sandbox.failed':
    case 'sandbox.lost':
    case 'sandbox.unkept':
    case 'sandbox.discarded':
    case 'iteration.failed':
    case 'spec.phase_failed':
    case 'spec.execution_failed':
      return {
        icon: CircleX,
        tone: 'bad',
        title: type === 'agent.failed' ? 'Failed' : headline(type),
        words: of('error') ?? of('reason'),
        meta: [of('failure_kind')?.replaceAll('_', ' '), code(data)].filter(Boolean).join(' · '),
        more: of('traceback') ?? of('final_output'),
      }
    case 'agent.stream_error':
      return { icon: RefreshCw, tone: 'warn', title: 'The model did not answer', words: of('error'), meta: retry(data) }
    case 'model.call':
      return { icon: Coins, tone: of('state') === 'done' && of('failure') === undefined ? 'plain' : 'bad', title: 'Model call', words: [of('model'), of('failure')?.replaceAll('_', ' ') ?? of('state'), of('advice')].filter(Boolean).join(' · '), meta: code(data) }
    case 'budget.exceeded':
      return {
        icon: Coins,
        tone: 'warn',
        title: 'Budget used up',
        words: `${of('level') ?? ''}: ${money(number(data, 'spent_usd') ?? 0)} of ${money(number(data, 'limit_usd') ?? 0)}`,
      }
    case 'egress.denied':
      return { icon: ShieldBan, tone: 'warn', title: 'Not allowed to reach', words: `${of('host') ?? ''}${port(data)}`, meta: of('reason') }
    case 'check.completed': {
      const isPassed = flag(data, 'passed') === true
      return {
        icon: SquareCheck,
        tone: isPassed ? 'ok' : 'bad',
        title: `Check ${isPassed ? 'passed' : 'failed'}`,
        words: of('name') ?? of('command'),
        meta: [code(data), took(data)].filter(Boolean).join(' · '),
        more: of('output_preview'),
      }
    }
    case 'sandbox.preserved': {
      const lost = number(data, 'left_out_files') ?? 0
      const named = array(data, 'left_out').map((left) => `${text(left, 'path') ?? ''}: ${text(left, 'reason') ?? ''}`)
      return {
        icon: GitCommitHorizontal,
        tone: lost > 0 ? 'bad' : 'plain',
        title: lost > 0 ? 'Work kept in part' : headline(type),
        words: of('ref_name'),
        meta: [of('commit')?.slice(0, 12), lost > 0 && `${lost} left out`].filter(Boolean).join(' · '),
        more: named.length > 0 ? named.join('\n') : undefined,
      }
    }
    case 'workspace.pushed':
    case 'git.push':
      return { icon: GitCommitHorizontal, tone: 'plain', title: flag(data, 'accepted') === false ? 'Push refused' : headline(type), words: of('branch_name') ?? of('ref_name') ?? of('ref'), meta: (of('commit') ?? of('new'))?.slice(0, 12) }
    case 'agent.turn_complete':
      return { icon: Circle, tone: 'plain', title: 'Turn complete', meta: [turns(data, 'num_turns'), took(data)].filter(Boolean).join(' · ') }
    case 'agent.result':
      return { icon: Circle, tone: 'plain', title: 'Result', words: of('result'), more: of('result') }
    default:
      return { icon: /error|fail/.test(type) ? CircleX : Circle, tone: /error|fail/.test(type) ? 'bad' : 'plain', title: headline(type), words: wordsOf(data), meta: took(data) }
  }
}

function completed({ data }: LogEvent): Said {
  const isDone = (flag(data, 'success') ?? flag(data, 'validation_passed')) !== false
  const written = number(data, 'output_tokens')
  const cost = number(data, 'cost_usd') ?? number(data, 'total_cost_usd')
  const proof = flag(data, 'validation_passed') ?? flag(data, 'tests_passed')
  return {
    icon: isDone ? CircleCheck : CircleX,
    tone: isDone ? 'ok' : 'bad',
    title: isDone ? (proof === true ? 'Completed, verified' : 'Completed, unverified') : 'Ended without success',
    words: text(data, 'final_output') ?? text(data, 'error'),
    meta: [
      turns(data, 'turns'),
      written !== undefined && `${tokens((number(data, 'input_tokens') ?? 0) + (number(data, 'cache_read_tokens') ?? 0))} in · ${tokens(written)} out`,
      cost !== undefined && money(cost),
      text(data, 'commit')?.slice(0, 12),
    ]
      .filter(Boolean)
      .join(' · '),
    more: text(data, 'final_output') ?? text(data, 'error'),
  }
}

const TITLES: Record<string, string> = {
  'sandbox.spawned': 'Sandbox made',
  'sandbox.booting': 'Worker starts',
  'sandbox.completed': 'Sandbox completed',
  'sandbox.failed': 'Sandbox failed',
  'sandbox.lost': 'Sandbox lost',
  'sandbox.terminated': 'Sandbox stopped',
  'sandbox.preserved': 'Work kept',
  'sandbox.unkept': 'Work not kept: a person decides',
  'sandbox.discarded': 'Work discarded',
  'workspace.progress': 'Workspace',
  'workspace.ready': 'Workspace ready',
  'workspace.pushed': 'Pushed',
  'git.push': 'Push accepted',
  'check.started': 'Check started',
  'agent.started': 'Agent started',
  'agent.processing': 'Message acted on',
  'agent.system_message': 'Conversation',
  'agent.waiting': 'Waits for a message',
  'agent.error': 'Error',
  'agent.shutdown': 'Worker ends',
}

function headline(type: string): string {
  return Object.hasOwn(TITLES, type) ? (TITLES[type] ?? type) : nameOf(type)
}

function code(data: unknown): string | undefined {
  const exit = number(data, 'exit_code')
  const status = number(data, 'status_code')
  return exit !== undefined ? `exit ${exit}` : status !== undefined ? `status ${status}` : undefined
}

function took(data: unknown): string | undefined {
  const ms = number(data, 'duration_ms')
  return ms === undefined ? undefined : duration(ms)
}

function turns(data: unknown, name: string): string | undefined {
  const count = number(data, name)
  return count === undefined ? undefined : count === 1 ? '1 turn' : `${count} turns`
}

function port(data: unknown): string {
  const given = number(data, 'port')
  return given === undefined ? '' : `:${given}`
}

function retry(data: unknown): string {
  const [attempt, most, wait] = [number(data, 'attempt'), number(data, 'attempts_max'), number(data, 'retry_delay_ms')]
  const parts = [
    attempt !== undefined && `attempt ${attempt}${most !== undefined && most > 0 ? ` of ${most}` : ''}`,
    wait !== undefined && `again in ${duration(wait)}`,
    code(data),
  ]
  return parts.filter(Boolean).join(' · ')
}

/** Fields that carry what an event says, the most telling first; after them what it is about. */
const SAYING = ['content', 'error', 'message', 'summary', 'reason', 'result', 'output_preview', 'feedback', 'description']
const NAMING = ['name', 'task', 'title', 'step', 'phase', 'branch_name', 'model', 'path', 'provider', 'message_id']

function wordsOf(data: unknown): string {
  const named = NAMING.map((name) => text(data, name)).find((value) => value !== undefined)
  const said = SAYING.map((name) => text(data, name)).find((value) => value !== undefined) ?? text(field(data, 'metadata'), 'subtype')
  const words = [named, said].filter((value) => value !== undefined)
  return words.length > 0 ? words.join(' · ') : preview(data)
}

/** Of data without any known field, its beginning. */
function preview(data: unknown): string {
  if (typeof data !== 'object' || data === null) return data === undefined ? '' : String(data)
  const { task_id: _task, agent_id: _agent, sandbox_id: _sandbox, spec_id: _spec, timestamp: _at, ...rest } = data as Record<string, unknown>
  return Object.keys(rest).length === 0 ? '' : JSON.stringify(rest).slice(0, WORDS_CHARS)
}

