import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { GitBranch } from 'lucide-react'
import { memo, type ReactNode } from 'react'
import type { CostTotals, Sandbox, Task } from '../../api/types'
import type { Facts } from '../../live/facts'
import { number, text } from '../../live/fields'
import { endedWords } from '../../parts/ended'
import { Copy } from '../../ui/Copy'
import { bytes, money, tokens } from '../../ui/figures'
import { nameOf, oneLine, shortId } from '../../ui/plain'
import { Reported, saysMore } from '../../ui/Reported'
import { State } from '../../ui/State'
import { Ago, Beat } from '../../ui/Time'
import { Actions } from './Actions'
import { BEAT_MS, sandboxCosts } from './queries'

/** From this part of a budget on it is worth a warning. */
const NEARLY = 0.8

type Props = { id: string; title: string; sandbox: Sandbox | undefined; task: Task | null | undefined; facts: Facts }

/** What the sandbox is for, how it stands, and what can be done to it. */
export const Head = memo(function Head({ id, title, sandbox, task, facts }: Props) {
  const costs = useQuery(sandboxCosts(id))
  const totals = costs.data?.totals
  const read = totals && totals.input_tokens + totals.cache_read_tokens + totals.cache_write_tokens
  const isAlive = sandbox?.status === 'running' || sandbox?.status === 'creating'
  return (
    <div className="flex shrink-0 flex-col gap-0.5 border-b border-line bg-surface px-4 py-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <h1 className="untrusted line-clamp-2 min-w-0 flex-1 basis-40 text-lg font-semibold md:flex-none">{title}</h1>
        {sandbox && <State state={sandbox.status} />}
        <span className="hidden flex-1 md:block" />
        {sandbox && <Actions sandbox={sandbox} task={task} />}
      </div>
      <dl className="flex flex-wrap gap-x-4 gap-y-0.5 text-xs text-muted tabular-nums">
        <Fact name="sandbox">
          <Copy text={id} label={`Copy the id ${id}`} className="font-mono">
            {nameOf(shortId(id))}
          </Copy>
        </Fact>
        {task && (
          <Fact name="task">
            <Link to="/tasks/$id" params={{ id: task.id }} title={task.id} className="inline-flex min-h-6 items-center font-mono text-accent underline">
              {nameOf(shortId(task.id))}
            </Link>
            {task.retry_count > 0 && ` attempt ${task.retry_count + 1}`}
          </Fact>
        )}
        {sandbox?.branch_name && (
          <Fact name="branch" icon={<GitBranch size={12} aria-hidden />}>
            <span className="font-mono break-all">{nameOf(sandbox.branch_name)}</span>
          </Fact>
        )}
        {sandbox?.stage === 'check' && (
          <Fact name="stage" shown>
            runs the checks that prove the task
          </Fact>
        )}
        {sandbox && <Isolation sandbox={sandbox} />}
        {sandbox && isAlive && (
          <Fact name="heartbeat" shown>
            <Beat at={sandbox.last_heartbeat_at} everyMs={Math.max(facts.beatMs ?? 0, BEAT_MS)} />
          </Fact>
        )}
        {sandbox?.ended_at && (
          <Fact name="ended" shown>
            <Ago at={sandbox.ended_at} /> {sandbox.end_reason && `(${oneLine(endedWords(sandbox.end_reason), 60)})`}
          </Fact>
        )}
        {isAlive && facts.cores !== undefined && (
          <Fact name="cpu" shown>
            {Math.round(facts.cores * 100)} %
          </Fact>
        )}
        {isAlive && facts.memoryBytes !== undefined && (
          <Fact name="memory" shown>
            {bytes(facts.memoryBytes)}
          </Fact>
        )}
        {facts.turn !== undefined && (
          <Fact name="turn" shown>
            {facts.turn}
          </Fact>
        )}
        {totals && totals.calls > 0 && (
          <Fact name="tokens">
            {tokens(read ?? 0)} in · {tokens(totals.output_tokens)} out
          </Fact>
        )}
        {totals && <Cost totals={totals} task={task} />}
      </dl>
    </div>
  )
})

/** What this attempt has spent of what it may, and the whole task of what that may. */
function Cost({ totals, task }: { totals: CostTotals; task: Task | null | undefined }) {
  const { reported_cost: reported } = totals
  const spent = totals.cost_usd + (reported?.counted_usd ?? 0)
  const limit = budget(task, 'max_total_cost_usd')
  const whole = budget(task, 'budget_usd')
  const all = task ? (task.cost_usd ?? 0) + (task.reported_cost?.counted_usd ?? 0) : undefined
  return (
    <>
      <Fact name="cost" shown>
        <Spent spent={spent} limit={limit} />
      </Fact>
      {saysMore(reported, totals.cost_usd) && (
        <Fact name="worker" shown>
          <Reported cost={reported} beside={totals.cost_usd} />
        </Fact>
      )}
      {whole !== undefined && all !== undefined && (
        <Fact name="task" shown>
          <Spent spent={Math.max(all, spent)} limit={whole} />
        </Fact>
      )}
    </>
  )
}

function Spent({ spent, limit }: { spent: number; limit: number | undefined }) {
  const part = limit === undefined ? 0 : spent / limit
  return (
    <span className={part >= 1 ? 'text-bad' : part >= NEARLY ? 'text-warn' : ''}>
      {money(spent)}
      {limit !== undefined && ` of ${money(limit)}`}
      {part >= 1 ? ', used up' : part >= NEARLY ? ', nearly used up' : ''}
    </span>
  )
}

/** 0 is no limit. */
function budget(task: Task | null | undefined, name: string): number | undefined {
  return number(task?.execution_config, name) || undefined
}

function Isolation({ sandbox }: { sandbox: Sandbox }) {
  const level = text(sandbox.isolation, 'level')
  return (
    <Fact name="isolation" shown>
      <span className={level !== undefined && level !== 'full' ? 'text-warn' : ''}>
        {level === undefined ? 'not told' : nameOf(level)} ({sandbox.provider})
      </span>
    </Fact>
  )
}

type FactProps = { name: string; icon?: ReactNode; shown?: boolean; children: ReactNode }

function Fact({ name, icon, shown = false, children }: FactProps) {
  return (
    <div className="flex min-w-0 items-center gap-1">
      <dt className={shown ? 'text-subtle' : 'sr-only'}>{name}</dt>
      {icon}
      <dd className="min-w-0">{children}</dd>
    </div>
  )
}
