import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ShieldAlert, ShieldCheck } from 'lucide-react'
import { useState, type FormEvent } from 'react'
import { Problem } from '../../api/problem'
import type { AuditEntry, AuditVerdict } from '../../api/types'
import { Button } from '../../ui/Button'
import { More } from '../../ui/More'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { nameOf, oneLine, plain, shortId } from '../../ui/plain'
import { Table, type Heading } from '../../ui/Table'
import { clockSeconds, whole } from '../../ui/time'
import { Ago } from '../../ui/Time'
import { auditList, auditVerdict } from './queries'
import { FIELDS, type AuditSearch, type Field } from './search'

const HEADINGS: Heading[] = [
  { label: 'Line', from: 'md', isRight: true },
  { label: 'When' },
  { label: 'Who' },
  { label: 'Did what' },
  { label: 'To what' },
]

const LABELS: Record<Field, string> = { actor: 'Who', action: 'Did what', entity_type: 'To what kind', entity_id: 'Its id' }
const DETAIL_CHARS = 90

type Props = { search: AuditSearch; onSearch: (search: AuditSearch) => void }

/** Who did what, newest first, and whether anybody has touched the record of it. */
export function AuditPage({ search, onSearch }: Props) {
  const list = useInfiniteQuery(auditList(search))
  const lines = list.data?.pages.flatMap((page) => page.items) ?? []
  const isFiltered = Object.keys(search).length > 0
  if (list.error instanceof Problem && list.error.status === 403) {
    return (
      <Page title="Audit">
        <Empty title="The audit trail takes the role admin to read." />
      </Page>
    )
  }
  return (
    <Page title="Audit">
      <Verdict />
      <Filters key={JSON.stringify(search)} search={search} onSearch={onSearch} />
      {list.isPending && <Skeleton rows={8} label="Loading the audit trail" />}
      {list.error && <ErrorPanel error={list.error} onRetry={() => void list.refetch()} />}
      {list.data && lines.length === 0 && (
        <Empty title={isFiltered ? 'No line is like that.' : 'Nobody has done anything yet.'}>
          {isFiltered && <Button onClick={() => onSearch({})}>Show all lines</Button>}
        </Empty>
      )}
      {lines.length > 0 && (
        <Table headings={HEADINGS}>
          {lines.map((line) => (
            <Line key={line.n} line={line} onSearch={(change) => onSearch({ ...search, ...change })} />
          ))}
        </Table>
      )}
      <More list={list} />
    </Page>
  )
}

/** Each line carries the hash of the one before it; the server follows the chain and says what it found. */
function Verdict() {
  const verdict = useQuery(auditVerdict())
  if (verdict.error) return <ErrorPanel error={verdict.error} onRetry={() => void verdict.refetch()} />
  const isBroken = typeof verdict.data?.broken_at === 'number' || Boolean(verdict.data?.cut_off)
  const Icon = isBroken ? ShieldAlert : ShieldCheck
  return (
    <div
      role="status"
      className={`flex min-h-9 flex-wrap items-center gap-x-3 border-b border-line px-4 py-1 ${isBroken ? 'bg-bad-soft text-bad' : verdict.data ? 'bg-ok-soft text-ok' : 'text-muted'}`}
    >
      {verdict.data ? (
        <>
          <Icon size={14} aria-hidden />
          <span>{verdictWords(verdict.data)}</span>
          <span className="text-xs text-muted">checked at {clockSeconds(new Date(verdict.dataUpdatedAt))}</span>
        </>
      ) : (
        'Following the chain from its first line…'
      )}
      <span className="flex-1" />
      <Button disabled={verdict.isFetching} onClick={() => void verdict.refetch()}>
        {verdict.isFetching ? 'Checking…' : 'Check again'}
      </Button>
    </div>
  )
}

export function verdictWords({ entries, broken_at, cut_off }: AuditVerdict): string {
  if (typeof broken_at === 'number') {
    return `Line ${broken_at} does not fit those before it: from there on, lines were changed, taken out or put in. The ${entries} before it fit.`
  }
  if (cut_off) {
    const at = cut_off.recorded_at ? ` at ${cut_off.recorded_at}` : ''
    return cut_off.entries > entries
      ? `The trail is cut off: ${entries} lines, but line ${cut_off.entries} was recorded${at}.`
      : `The trail was rewritten: line ${cut_off.entries} is not the one that was recorded${at}.`
  }
  return entries === 1 ? 'The one line fits: nobody has changed it.' : `All ${entries} lines fit: nobody has changed, taken out or put in any.`
}

function Filters({ search, onSearch }: Props) {
  const [draft, setDraft] = useState<AuditSearch>(search)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    onSearch(Object.fromEntries(Object.entries(draft).flatMap(([field, value]) => (value.trim() ? [[field, value.trim()]] : []))))
  }
  return (
    <form role="search" aria-label="Filter the audit trail" onSubmit={submit} className="flex flex-wrap items-end gap-2 border-b border-line px-4 py-2">
      {FIELDS.map((field) => (
        <label key={field} className="flex min-w-0 flex-col gap-0.5 text-xs text-muted">
          {LABELS[field]}
          <input
            value={draft[field] ?? ''}
            onChange={(event) => setDraft((before) => ({ ...before, [field]: event.target.value }))}
            placeholder="any"
            spellCheck={false}
            autoComplete="off"
            className="h-7 w-36 rounded border border-line-strong bg-sunken px-2 font-mono text-xs text-fg placeholder:text-subtle"
          />
        </label>
      ))}
      <Button type="submit">Filter</Button>
      {Object.keys(search).length > 0 && <Button onClick={() => onSearch({})}>Show all</Button>}
    </form>
  )
}

function Line({ line, onSearch }: { line: AuditEntry; onSearch: (change: AuditSearch) => void }) {
  const { n, at, actor, action, entity_type, entity_id, detail } = line
  // What was not said is of no interest in passing.
  const json = JSON.stringify(detail, (_name, value: unknown) => value ?? undefined) ?? ''
  return (
    <tr className="border-b border-line align-top hover:bg-raised">
      <td className="hidden px-4 py-1 text-right text-muted tabular-nums md:table-cell">{n}</td>
      <td className="px-2 py-1 text-muted">
        <Ago at={at} />
      </td>
      <td className="min-w-24 px-2 py-0.5">
        <Narrow label={`Only what ${nameOf(actor)} did`} onClick={() => onSearch({ actor })}>
          {nameOf(actor)}
        </Narrow>
      </td>
      <td className="min-w-32 px-2 py-0.5">
        <div className="flex flex-wrap items-start gap-x-3">
          <Narrow label={`Only ${nameOf(action)}`} onClick={() => onSearch({ action })}>
            {nameOf(action)}
          </Narrow>
          {json !== '{}' && json !== '' && (
            <details className="min-w-0 text-xs">
              <summary className="untrusted min-h-6 cursor-pointer leading-6 text-muted">
                <span className="md:hidden">details</span>
                <span className="hidden md:inline">{oneLine(json, DETAIL_CHARS)}</span>
              </summary>
              <pre className="untrusted max-h-60 overflow-auto rounded bg-sunken p-2 font-mono">{plain(JSON.stringify(detail, null, 2))}</pre>
              <p className="font-mono text-2xs break-all text-subtle" title={whole(new Date(at))}>
                hash {line.hash}
              </p>
            </details>
          )}
        </div>
      </td>
      <td className="py-0.5 pr-4 pl-2 md:whitespace-nowrap">
        <Named type={entity_type} id={entity_id} />{' '}
        <Narrow label={`Only lines about ${nameOf(entity_id)}`} onClick={() => onSearch({ entity_type, entity_id })}>
          its lines
        </Narrow>
      </td>
    </tr>
  )
}

function Narrow({ label, onClick, children }: { label: string; onClick: () => void; children: string }) {
  return (
    <button type="button" title={label} onClick={onClick} className="untrusted min-h-6 cursor-pointer text-left text-muted hover:text-fg hover:underline">
      {children}
    </button>
  )
}

const LOOK = 'inline-flex min-h-6 items-center font-mono text-xs text-accent hover:underline'

function Named({ type, id }: { type: string; id: string }) {
  const words = `${nameOf(type)} ${nameOf(shortId(id))}`
  switch (type) {
    case 'task':
      return (
        <Link to="/tasks/$id" params={{ id }} title={id} className={LOOK}>
          {words}
        </Link>
      )
    case 'sandbox':
      return (
        <Link to="/sandboxes/$id" params={{ id }} title={id} className={LOOK}>
          {words}
        </Link>
      )
    case 'project':
      return (
        <Link to="/projects/$id" params={{ id }} title={id} className={LOOK}>
          {words}
        </Link>
      )
    default:
      return (
        <span title={nameOf(id)} className="font-mono text-xs">
          {words}
        </span>
      )
  }
}
