import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Check, CircleHelp, File, GitMerge, Rows3, type LucideIcon } from 'lucide-react'
import { asProblem } from '../../api/problem'
import type { Clash, Conflict, Duplicate, Matrix as MatrixData, PairState, Side } from '../../api/types'
import { Button } from '../../ui/Button'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { nameOf, oneLine } from '../../ui/plain'
import { Scroll } from '../../ui/Scroll'
import { Quiet, Section } from '../../ui/Section'
import { Ago } from '../../ui/Time'
import { Badge } from './Badge'
import type { TabProps } from './MonitorPage'
import { List, Over, ProjectChoice, useDeed, useMayAct } from './parts'
import { conflictList, duplicateDismiss, duplicateList, matrix } from './queries'

const CHARS = 80
const FILES_SHOWN = 10

type Props = TabProps & { project: string | undefined }

/** Who gets in whose way, in one project. */
export function Radar({ search, onSearch, project }: Props) {
  if (project === undefined) return <Empty title="There is no project yet, so nobody can get in anybody's way." />
  return (
    <>
      <div className="flex flex-wrap gap-4">
        <ProjectChoice chosen={project} onChoose={(chosen) => onSearch({ project: chosen })} />
        <Over isOn={Boolean(search.all)} onChange={(isOn) => onSearch({ all: isOn ? true : undefined })}>
          also what is over or dismissed
        </Over>
      </div>
      <Everybody project={project} />
      <Conflicts project={project} isAll={Boolean(search.all)} />
      <Duplicates project={project} isAll={Boolean(search.all)} />
    </>
  )
}

const PAIRS: Record<PairState, [LucideIcon, string, string]> = {
  unknown: [CircleHelp, 'text-subtle', 'not known'],
  clear: [Check, 'text-ok', 'nothing in the way'],
  files: [File, 'text-warn', 'same files'],
  lines: [Rows3, 'text-bad', 'same lines'],
  merge: [GitMerge, 'text-bad', 'branches do not merge'],
}

function Everybody({ project }: { project: string }) {
  const found = useQuery(matrix(project))
  return (
    <Section
      title="Everybody against everybody"
      aside={
        found.data?.at && (
          <span className="text-xs text-muted">
            as of <Ago at={found.data.at} />
          </span>
        )
      }
    >
      {found.error && <ErrorPanel error={found.error} onRetry={() => void found.refetch()} />}
      {found.isPending && <Skeleton rows={4} label="Loading the radar" />}
      {found.data &&
        (found.data.members.length < 2 ? <Quiet>Fewer than two work on this project, so nothing can be in the way.</Quiet> : <Grid data={found.data} />)}
    </Section>
  )
}

/** The state of two, whichever is named first; nothing where nobody looked. */
export function pairStates({ members, pairs }: MatrixData): (PairState | undefined)[][] {
  const grid = members.map(() => members.map((): PairState | undefined => undefined))
  for (const { a, b, state } of pairs) {
    const [row, other] = [grid[a], grid[b]]
    if (row && other) [row[b], other[a]] = [state, state]
  }
  return grid
}

function Grid({ data }: { data: MatrixData }) {
  const grid = pairStates(data)
  return (
    <>
      <Scroll label="Matrix" className="max-h-[60dvh]">
        <table className="text-left">
          <thead className="text-2xs text-subtle">
            <tr>
              <th className="px-3 py-1 font-medium">Task</th>
              {data.members.map((member, n) => (
                <th key={keyOf(member, n)} title={oneLine(member.title, CHARS)} className="min-w-8 px-1 py-1 text-center font-medium tabular-nums">
                  {n + 1}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {data.members.map((member, row) => (
              <tr key={keyOf(member, row)} className="border-t border-line">
                <th scope="row" className="px-3 py-1 font-normal whitespace-nowrap">
                  <div className="flex w-60 items-center gap-2 md:w-90">
                    <span className="text-2xs text-subtle tabular-nums">{row + 1}</span>
                    <SideName side={member} />
                    {!member.live && member.task_id && <span className="shrink-0 text-2xs text-subtle">to be merged</span>}
                  </div>
                </th>
                {data.members.map((other, column) => (
                  <td key={keyOf(other, column)} className="border-l border-line px-1 text-center">
                    {row === column ? <span className="text-subtle">–</span> : <Cell state={grid[row]?.[column]} />}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <ul className="flex flex-wrap gap-x-4 gap-y-1 border-t border-line px-3 py-2 text-xs text-muted">
        {(Object.keys(PAIRS) as PairState[]).map((state) => {
          const [Icon, tone, words] = PAIRS[state]
          return (
            <li key={state} className="inline-flex items-center gap-1">
              <Icon size={13} aria-hidden className={tone} />
              {words}
            </li>
          )
        })}
      </ul>
    </>
  )
}

function Cell({ state }: { state: PairState | undefined }) {
  if (!state) return <span className="sr-only">not looked at</span>
  const [Icon, tone, words] = PAIRS[state]
  return (
    <span title={words} className={`inline-flex ${tone}`}>
      <Icon size={14} aria-hidden />
      <span className="sr-only">{words}</span>
    </span>
  )
}

function keyOf({ sandbox_id, branch, title }: Side, n: number): string {
  return sandbox_id ?? branch ?? `${title} ${n}`
}

function SideName({ side }: { side: Side }) {
  const name = oneLine(side.title, CHARS)
  if (!side.task_id) return <span className="untrusted font-mono text-xs">{name}</span>
  return (
    <Link to="/tasks/$id" params={{ id: side.task_id }} className="untrusted inline-block min-h-6 max-w-full min-w-0 truncate leading-6 text-accent hover:underline">
      {name}
    </Link>
  )
}

const ROW = 'flex flex-col gap-1 border-b border-line px-3 py-2 last:border-b-0'
const LINE = 'flex flex-wrap items-center gap-x-2 gap-y-0.5'

function Conflicts({ project, isAll }: { project: string; isAll: boolean }) {
  const conflicts = useInfiniteQuery(conflictList(project, isAll))
  return (
    <Section title="Conflicts, newest first">
      <List list={conflicts} label="conflicts" empty={isAll ? 'There was never one.' : 'Nobody is in anybody’s way.'}>
        {(items) => (
          <ul>
            {items.map((conflict) => (
              <ConflictRow key={conflict.id} conflict={conflict} />
            ))}
          </ul>
        )}
      </List>
    </Section>
  )
}

function ConflictRow({ conflict: { kind, a, b, files, since, cleared_at, told } }: { conflict: Conflict }) {
  return (
    <li className={ROW}>
      <div className={LINE}>
        <Badge tone={cleared_at ? 'muted' : kind === 'files' ? 'warn' : 'bad'}>{PAIRS[kind][2]}</Badge>
        <SideName side={a} />
        <span className="text-muted">and</span>
        <SideName side={b} />
        <span className="ml-auto text-xs text-muted">
          since <Ago at={since} />
          {cleared_at && (
            <>
              , over <Ago at={cleared_at} />
            </>
          )}
        </span>
      </div>
      <Clashes files={files} />
      <p className="text-xs text-muted">{told.length === 0 ? 'Nobody was told.' : told.length === 1 ? 'One agent was told.' : `${told.length} agents were told.`}</p>
    </li>
  )
}

function Clashes({ files }: { files: readonly Clash[] }) {
  if (files.length === 0) return null
  return (
    <ul className="font-mono text-xs">
      {files.slice(0, FILES_SHOWN).map((clash) => (
        <li key={clash.path} className="untrusted">
          {nameOf(clash.path)} <span className="text-muted">{linesOf(clash)}</span>
        </li>
      ))}
      {files.length > FILES_SHOWN && <li className="text-muted">and {files.length - FILES_SHOWN} more</li>}
    </ul>
  )
}

export function linesOf({ lines }: Clash): string {
  if (lines.length === 0) return ''
  const spans = lines.map(({ first, last }) => (last === first ? String(first) : `${first}–${last ?? 'end'}`))
  return `${lines.length === 1 && lines[0]?.first === lines[0]?.last ? 'line' : 'lines'} ${spans.join(', ')}`
}

function Duplicates({ project, isAll }: { project: string; isAll: boolean }) {
  const duplicates = useInfiniteQuery(duplicateList(project, isAll))
  return (
    <Section title="Tasks that seem to be the same work">
      <List list={duplicates} label="duplicates" empty={isAll ? 'There were never two alike.' : 'No two are alike.'}>
        {(items) => (
          <ul>
            {items.map((duplicate) => (
              <DuplicateRow key={duplicate.id} duplicate={duplicate} />
            ))}
          </ul>
        )}
      </List>
    </Section>
  )
}

function DuplicateRow({ duplicate: { id, a, b, similarity, files, found_at, dismissed_at, dismissed_by } }: { duplicate: Duplicate }) {
  const mayAct = useMayAct()
  const dropping = useDeed(() => duplicateDismiss(id))
  return (
    <li className={ROW}>
      <div className={LINE}>
        <Badge tone={dismissed_at ? 'muted' : 'warn'}>{`${Math.round(similarity * 100)} % alike`}</Badge>
        <SideName side={a} />
        <span className="text-muted">and</span>
        <SideName side={b} />
        <span className="ml-auto text-xs text-muted">
          <Ago at={found_at} />
        </span>
      </div>
      {files.length > 0 && <p className="untrusted font-mono text-xs text-muted">{files.slice(0, FILES_SHOWN).map(nameOf).join(', ')}</p>}
      {dismissed_at && <p className="untrusted text-xs text-muted">not the same, says {nameOf(dismissed_by ?? 'somebody')}</p>}
      {!dismissed_at && mayAct && (
        <div>
          <Button disabled={dropping.isPending} onClick={() => dropping.mutate(undefined)}>
            {dropping.isPending ? 'Dismissing…' : 'They are not the same'}
          </Button>
        </div>
      )}
      {dropping.error && <ErrorPanel error={asProblem(dropping.error)} />}
    </li>
  )
}
