import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { CostTotals, ModelCall, Project } from '../../api/types'
import { useFresh } from '../../app/live'
import { Button } from '../../ui/Button'
import { Chips } from '../../ui/Chips'
import { money, tokens } from '../../ui/figures'
import { More } from '../../ui/More'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { nameOf, oneLine, shortId } from '../../ui/plain'
import { Reported, saysMore } from '../../ui/Reported'
import { Quiet, Section } from '../../ui/Section'
import { Table, type Heading } from '../../ui/Table'
import { Ago } from '../../ui/Time'
import { callList, costGroups, projectNames, taskName, type Asked } from './queries'
import { GROUPS, RANGES, sinceOf, type CostSearch, type Group, type Range } from './search'

const HEADINGS: Heading[] = [
  { label: 'When' },
  { label: 'Model' },
  { label: 'Sandbox' },
  { label: 'State', from: 'md' },
  { label: 'Read', from: 'md', isRight: true },
  { label: 'Written', from: 'md', isRight: true },
  { label: 'Cost', isRight: true },
]

const CHANGES = { eventTypes: ['SANDBOX_model.call'] }
const CHARS = 120
const RANGE_WORDS: Record<Range, string> = { '24h': '24 hours', '7d': '7 days', '30d': '30 days', all: 'all time' }

type Props = { search: CostSearch; onSearch: (change: CostSearch) => void }

/** What model calls cost, by whom and by what, and the calls themselves. */
export function CostPage({ search, onSearch }: Props) {
  const range = search.range ?? '7d'
  const group = search.group ?? 'project'
  // The moment it was opened stays the moment it is counted from.
  const [now] = useState(() => new Date())
  const since = sinceOf(range, now)
  const asked: Asked = { ...(since && { since }), ...(search.project && { project_id: search.project }) }
  const calls = useInfiniteQuery(callList(asked))
  const projects = useQuery(projectNames())
  useFresh(CHANGES, [['costs']])
  const totals = calls.data?.pages[0]?.totals
  const items = calls.data?.pages.flatMap((page) => page.items) ?? []
  const isEmpty = calls.data !== undefined && items.length === 0 && !(totals && saysMore(totals.reported_cost, totals.cost_usd))

  return (
    <Page
      title="Costs"
      aside={
        <>
          <Chips
            label="Since when"
            chips={RANGES.map((id) => ({ id, label: RANGE_WORDS[id] }))}
            chosen={range}
            onChoose={(chosen) => onSearch({ range: chosen })}
          />
          <label className="flex items-center gap-2 text-xs text-muted">
            Project
            <select
              value={search.project ?? ''}
              onChange={(event) => onSearch({ project: event.target.value || undefined })}
              className="h-7 max-w-50 rounded border border-line-strong bg-surface px-1 text-fg"
            >
              <option value="">all</option>
              {projects.data?.items.map(({ id, name }) => (
                <option key={id} value={id}>
                  {oneLine(name, CHARS)}
                </option>
              ))}
            </select>
          </label>
        </>
      }
    >
      {calls.isPending && <Skeleton rows={6} label="Loading costs" />}
      {calls.error && <ErrorPanel error={calls.error} onRetry={() => void calls.refetch()} />}
      {isEmpty && (
        <Empty title="No model was called in this time.">
          {range !== 'all' && <Button onClick={() => onSearch({ range: 'all' })}>Show all time</Button>}
        </Empty>
      )}
      {totals && !isEmpty && (
        <div className="flex flex-col gap-4 p-4">
          <Sums totals={totals} />
          {saysMore(totals.reported_cost, totals.cost_usd) && <ReportedSum totals={totals} />}
          <Section
            title="By"
            aside={<Chips label="Added up by" chips={GROUPS.map((id) => ({ id, label: id }))} chosen={group} onChoose={(chosen) => onSearch({ group: chosen })} />}
          >
            <Groups asked={asked} by={group} projects={projects.data?.items ?? []} />
          </Section>
          <Section title="Calls, newest first">
            <Calls calls={items} />
            <More list={calls} />
          </Section>
        </div>
      )}
    </Page>
  )
}

function Sums({ totals }: { totals: CostTotals }) {
  const sums: [string, string][] = [
    ['Cost', money(totals.cost_usd)],
    ['Model calls', String(totals.calls)],
    ['Tokens read', tokens(totals.input_tokens)],
    ['Read from the cache', tokens(totals.cache_read_tokens)],
    ['Written to the cache', tokens(totals.cache_write_tokens)],
    ['Tokens written', tokens(totals.output_tokens)],
  ]
  return (
    <dl className="grid grid-cols-2 gap-2 md:grid-cols-3 lg:grid-cols-6">
      {sums.map(([name, value]) => (
        <div key={name} className="rounded-lg border border-line bg-surface px-3 py-2">
          <dt className="text-xs text-muted">{name}</dt>
          <dd className="text-lg font-semibold tabular-nums">{value}</dd>
        </div>
      ))}
    </dl>
  )
}

/** Beside what the server counted: what workers elsewhere say that they spent. */
function ReportedSum({ totals: { reported_cost, cost_usd } }: { totals: CostTotals }) {
  return (
    <p className="text-sm text-muted">
      Beside that, workers spent <Reported cost={reported_cost} beside={cost_usd} />. The server cannot check it; budgets count{' '}
      {money(reported_cost?.counted_usd ?? 0)} of it, where a sandbox made no model call through the server.
    </p>
  )
}

const NUMBER = 'px-2 text-right text-muted tabular-nums'

function Groups({ asked, by, projects }: { asked: Asked; by: Group; projects: readonly Project[] }) {
  const groups = useQuery(costGroups(asked, by))
  if (groups.isPending) return <Skeleton rows={3} label="Adding up" />
  if (groups.error) return <ErrorPanel error={groups.error} onRetry={() => void groups.refetch()} />
  const { items, is_cut } = groups.data
  return (
    <>
      <Table
        edge="section"
        headings={[
          { label: by === 'day' ? 'day (UTC)' : by },
          { label: 'Calls', isRight: true },
          { label: 'Read', from: 'md', isRight: true },
          { label: 'From the cache', from: 'md', isRight: true },
          { label: 'Written', from: 'md', isRight: true },
          { label: 'Cost', isRight: true },
        ]}
      >
        {items.map((item) => (
          <tr key={item.key ?? ''} className="h-8 border-b border-line last:border-b-0">
            <td className="min-w-0 px-3">
              <Key by={by} of={item.key} projects={projects} />
            </td>
            <td className={NUMBER}>{item.calls}</td>
            <td className={`hidden md:table-cell ${NUMBER}`}>{tokens(item.input_tokens)}</td>
            <td className={`hidden md:table-cell ${NUMBER}`}>{tokens(item.cache_read_tokens)}</td>
            <td className={`hidden md:table-cell ${NUMBER}`}>{tokens(item.output_tokens)}</td>
            <td className="px-3 text-right tabular-nums">
              {money(item.cost_usd)} <Reported cost={item.reported_cost} beside={item.cost_usd} />
            </td>
          </tr>
        ))}
      </Table>
      {is_cut && <Quiet>Only the first {items.length} are shown.</Quiet>}
    </>
  )
}

type KeyProps = { by: Group; of: string | null | undefined; projects: readonly Project[] }

function Key({ by, of, projects }: KeyProps) {
  if (!of) return <span className="text-muted">of no {by}</span>
  switch (by) {
    case 'project':
      return (
        <Link to="/projects/$id" params={{ id: of }} title={of} className="untrusted text-accent hover:underline">
          {oneLine(projects.find(({ id }) => id === of)?.name ?? shortId(of), CHARS)}
        </Link>
      )
    case 'task':
      return <TaskName id={of} />
    case 'model':
      return <span className="untrusted font-mono text-xs">{nameOf(of)}</span>
    case 'day':
      return <span className="tabular-nums">{nameOf(of)}</span>
    default:
      return by satisfies never
  }
}

function TaskName({ id }: { id: string }) {
  const { data } = useQuery(taskName(id))
  return (
    <Link to="/tasks/$id" params={{ id }} title={id} className="untrusted text-accent hover:underline">
      {data ? oneLine(data.title, CHARS) : shortId(id)}
    </Link>
  )
}

function Calls({ calls }: { calls: readonly ModelCall[] }) {
  return (
    <Table headings={HEADINGS} edge="section">
      {calls.map((call) => (
        <tr key={call.id} className="h-8 border-b border-line last:border-b-0">
          <td className="px-3 text-muted">
            <Ago at={call.started_at} />
          </td>
          <td className="untrusted px-2 font-mono text-xs">{nameOf(call.model)}</td>
          <td className="px-2">
            <Link to="/sandboxes/$id" params={{ id: call.sandbox_id }} title={call.sandbox_id} className="font-mono text-xs text-accent hover:underline">
              {shortId(call.sandbox_id)}
            </Link>
          </td>
          <td className={`hidden px-2 md:table-cell ${call.state === 'done' || call.state === 'open' ? 'text-muted' : 'text-bad'}`}>
            {call.state.replaceAll('_', ' ')}
          </td>
          <td className={`hidden md:table-cell ${NUMBER}`}>{tokens(call.input_tokens + call.cache_read_tokens + call.cache_write_tokens)}</td>
          <td className={`hidden md:table-cell ${NUMBER}`}>{tokens(call.output_tokens)}</td>
          <td className="px-3 text-right tabular-nums">
            {call.estimated && <span title="Some of the tokens or the price are a guess, because nobody told them.">about </span>}
            {money(call.cost_usd)}
          </td>
        </tr>
      ))}
    </Table>
  )
}
