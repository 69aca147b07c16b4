import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { List, Maximize, Workflow, ZoomIn, ZoomOut, type LucideIcon } from 'lucide-react'
import { useMemo, useRef, useState } from 'react'
import type { Overlap, Task, TaskGraph } from '../../../api/types'
import { useActs } from '../../../app/acts'
import { useKeys } from '../../../app/keys'
import { conflictOf, conflictWords } from '../../../parts/conflict'
import { count } from '../../../ui/amount'
import { Button } from '../../../ui/Button'
import { Page } from '../../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../../ui/panels'
import { nameOf, oneLine, shortId } from '../../../ui/plain'
import { duration } from '../../../ui/time'
import { useIsWide } from '../../../ui/wide'
import { projectChoice, ticketOne } from '../queries'
import { TaskDrawer } from '../TaskDrawer'
import { useMoves } from '../useMoves'
import { useTaskStream } from '../useTaskStream'
import { Canvas, type Zoomer } from './Canvas'
import { lineage, outline, shownOf, startOf } from './graph'
import { layOut } from './layout'
import { Outline } from './Outline'
import { conflictsOf, graphOf, holdersOf, overlapsOf } from './queries'
import type { GraphSearch } from './search'

const STEP = 1.25
const NO_HOLDERS: ReadonlyMap<string, string> = new Map()
const NO_TASKS: ReadonlyMap<string, Task> = new Map()
const FILES = 3
/** What the drawer covers of the drawing. */
const DRAWER_PX = 560

type Props = { search: GraphSearch; onSearch: (change: GraphSearch) => void }

/** What waits for what in a project, or in one of its tickets. */
export function GraphPage({ search, onSearch }: Props) {
  const projects = useQuery(projectChoice())
  const isTicket = search.scope === 'ticket' && search.id !== undefined
  const ticket = useQuery({ ...ticketOne(search.id ?? ''), enabled: isTicket })
  const project = isTicket ? ticket.data?.project_id : (search.id ?? projects.data?.items[0]?.id)
  const options = graphOf(project ?? '', isTicket ? search.id : undefined)
  const graph = useQuery({ ...options, enabled: project !== undefined })
  const error = graph.error ?? projects.error ?? ticket.error
  const retry = () => [graph, projects, ticket].forEach((query) => query.error && void query.refetch())
  const isNone = projects.data?.items.length === 0

  return (
    <Page
      title="Graph"
      aside={
        <>
          <select
            aria-label="Project"
            value={project ?? ''}
            onChange={(event) => onSearch({ scope: undefined, id: event.target.value || undefined, focus: undefined })}
            className="h-7 max-w-52 rounded border border-line-strong bg-surface px-1"
          >
            {projects.data?.items.map(({ id, name }) => (
              <option key={id} value={id}>
                {nameOf(name)}
              </option>
            ))}
          </select>
          {isTicket && ticket.data && (
            <span className="untrusted text-muted">
              ticket #{ticket.data.number}, {oneLine(ticket.data.title, 80)}
            </span>
          )}
        </>
      }
    >
      {error && <ErrorPanel error={error} onRetry={retry} />}
      {!error && !isNone && graph.isPending && <Skeleton rows={8} label="Loading the graph" />}
      {isNone && (
        <Empty title="There is no project yet, and so no task.">
          <Link to="/projects/new" className="text-accent underline">
            Add a project
          </Link>
        </Empty>
      )}
      {graph.data?.nodes.length === 0 && (
        <Empty title="No task here yet.">
          <p>Tasks and what they wait for are drawn here; `omoi task import` makes many at once.</p>
          <Link to="/sandboxes/new" search={project ? { project } : {}} className="text-accent underline">
            Start the first one
          </Link>
        </Empty>
      )}
      {graph.data && graph.data.nodes.length > 0 && (
        <Drawing key={`${project} ${isTicket ? search.id : ''}`} graph={graph.data} search={search} onSearch={onSearch} />
      )}
    </Page>
  )
}

function Drawing({ graph, search, onSearch }: Props & { graph: TaskGraph }) {
  const queries = useQueryClient()
  const holders = useQuery(holdersOf(graph.project_id))
  const overlaps = useQuery(overlapsOf(graph.project_id))
  const { data: unmerged = NO_TASKS } = useQuery(conflictsOf(graph.project_id))
  const moves = useMoves()
  const zoomer = useRef<Zoomer>(null)
  const isHiding = search.hide === true
  const isList = search.view === 'list'
  const shown = useMemo(() => shownOf(graph, isHiding), [graph, isHiding])
  const layout = useMemo(() => layOut(shown), [shown])
  const rows = useMemo(() => (isList ? outline(shown) : []), [shown, isList])
  const related = useMemo(() => (search.focus ? lineage(shown.edges, search.focus) : undefined), [shown, search.focus])
  const critical = useMemo(() => new Set(search.path ? graph.critical_path : []), [graph, search.path])
  const [start] = useState(() => search.focus ?? startOf(shown.nodes))
  const known = useMemo(
    () => new Map(graph.nodes.map((node) => [node.id, { ...node, error_message: unmerged.get(node.id)?.error_message }])),
    [graph, unmerged],
  )
  const conflicts = useMemo(() => conflictsIn(graph, unmerged), [graph, unmerged])
  const holder = search.focus ? holders.data?.get(search.focus) : undefined
  const [acts, hear] = useActs(holder ? [holder] : [])
  useTaskStream(hear, () => void queries.invalidateQueries({ queryKey: ['graph'] }))

  const isWide = useIsWide()
  const choose = (id: string) => onSearch({ focus: id === search.focus ? undefined : id })
  const close = () => onSearch({ focus: undefined })
  const toggleList = () => onSearch({ view: isList ? undefined : 'list' })
  useKeys({
    l: toggleList,
    L: toggleList,
    ...(search.focus && { Escape: close }),
    ...(!isList && { '+': () => zoomer.current?.by(STEP), '-': () => zoomer.current?.by(1 / STEP), '0': () => zoomer.current?.fit() }),
  })
  return (
    <div className="relative flex h-full min-h-80 flex-col">
      <div className="flex shrink-0 flex-wrap items-center gap-x-3 gap-y-1 border-b border-line px-4 py-1">
        <Button aria-pressed={isList} onClick={toggleList} title="L">
          {isList ? <Workflow size={14} aria-hidden /> : <List size={14} aria-hidden />}
          {isList ? 'As a drawing' : 'As a list'}
        </Button>
        {!isList && (
          <span className="flex gap-1">
            <Tool label="Smaller" icon={ZoomOut} onClick={() => zoomer.current?.by(1 / STEP)} />
            <Tool label="Larger" icon={ZoomIn} onClick={() => zoomer.current?.by(STEP)} />
            <Tool label="Fit all" icon={Maximize} onClick={() => zoomer.current?.fit()} />
          </span>
        )}
        <Switch label="Critical path" isOn={search.path === true} onChange={(isOn) => onSearch({ path: isOn || undefined })} />
        <Switch label="Hide completed" isOn={isHiding} onChange={(isOn) => onSearch({ hide: isOn || undefined })} />
        <span className="text-xs text-muted tabular-nums">
          {count(shown.nodes.length, 'task')}, {count(graph.groups.length, 'step')}
          {search.path && `; the critical path has ${count(graph.critical_path.length, 'task')} and takes ${duration(graph.critical_path_seconds * 1000)}`}
        </span>
        {!isList && <Legend />}
      </div>
      {graph.truncated && <p className="border-b border-line bg-warn-soft px-4 py-1 text-warn">There are more tasks than are shown: these are the newest.</p>}
      {layout.cycle.length > 0 && <Cycle ids={layout.cycle} nameOf={(id) => known.get(id)?.title ?? id} />}
      {overlaps.data && overlaps.data.length > 0 && <Overlaps items={overlaps.data} onChoose={choose} />}
      {conflicts.size > 0 && <Conflicts items={conflicts} titleOf={(id) => known.get(id)?.title ?? ''} onChoose={choose} />}
      {moves.view}
      {shown.nodes.length === 0 && (
        <Empty title="Every task is completed.">
          <Button onClick={() => onSearch({ hide: undefined })}>Show completed tasks</Button>
        </Empty>
      )}
      {isList ? (
        <Outline rows={rows} chosen={search.focus} related={related} conflicts={conflicts} onChoose={choose} />
      ) : (
        <Canvas
          layout={layout}
          start={start}
          chosen={search.focus}
          related={related}
          critical={critical}
          holders={holders.data ?? NO_HOLDERS}
          conflicts={conflicts}
          coveredPx={isWide && search.focus ? DRAWER_PX : 0}
          onChoose={choose}
          zoomer={zoomer}
        />
      )}
      {search.focus && (
        <TaskDrawer key={search.focus} id={search.focus} known={known} acts={acts} moves={moves} onClose={close} />
      )}
    </div>
  )
}

function Tool({ label, icon: Icon, onClick }: { label: string; icon: LucideIcon; onClick: () => void }) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      onClick={onClick}
      className="inline-flex size-7 cursor-pointer items-center justify-center rounded border border-line-strong hover:bg-raised"
    >
      <Icon size={14} aria-hidden />
    </button>
  )
}

function Switch({ label, isOn, onChange }: { label: string; isOn: boolean; onChange: (isOn: boolean) => void }) {
  return (
    <label className="flex min-h-7 items-center gap-1.5 text-muted">
      <input type="checkbox" checked={isOn} onChange={(event) => onChange(event.target.checked)} className="size-4 accent-(--accent)" />
      {label}
    </label>
  )
}

const LINES = [
  ['done', 'stroke-ok', undefined],
  ['waits', 'stroke-line-strong', '5 4'],
  ['blocked by a failure', 'stroke-bad', undefined],
] as const

function Legend() {
  return (
    <ul aria-label="Legend" className="flex flex-wrap gap-x-3 text-2xs text-muted">
      {LINES.map(([words, stroke, dash]) => (
        <li key={words} className="inline-flex items-center gap-1">
          <svg width="24" height="8" aria-hidden>
            <path d="M0 4H24" strokeWidth="2" strokeDasharray={dash} className={`fill-none ${stroke}`} />
          </svg>
          {words}
        </li>
      ))}
    </ul>
  )
}

function Cycle({ ids, nameOf: titleOf }: { ids: readonly string[]; nameOf: (id: string) => string }) {
  return (
    <p role="alert" className="untrusted border-b border-line bg-bad-soft px-4 py-1 text-bad">
      These tasks wait for each other, so none of them can begin: {ids.map((id) => oneLine(titleOf(id), 60)).join(', ')}.
    </p>
  )
}

/** Two that change the same files may end in a merge that somebody has to sort out. */
function Overlaps({ items, onChoose }: { items: readonly Overlap[]; onChoose: (id: string) => void }) {
  return (
    <details className="border-b border-line bg-warn-soft px-4 py-1 text-warn">
      <summary className="min-h-6 cursor-pointer">
        {items.length === 1 ? 'One pair of tasks under way touches' : `${items.length} pairs of tasks under way touch`} the same files
      </summary>
      <ul className="max-h-40 overflow-auto">
        {items.map(({ task_id, title, other_id, other_title, files }) => (
          <li key={`${task_id} ${other_id}`} className="flex flex-wrap gap-x-2 py-0.5">
            <Name id={task_id} title={title} onChoose={onChoose} /> and <Name id={other_id} title={other_title} onChoose={onChoose} />
            <span className="untrusted font-mono text-xs">
              {files.slice(0, FILES).map(nameOf).join(', ')}
              {files.length > FILES && ` and ${files.length - FILES} more`}
            </span>
          </li>
        ))}
      </ul>
    </details>
  )
}

/** Of each task that is drawn and cannot begin, why. */
function conflictsIn({ nodes }: TaskGraph, unmerged: ReadonlyMap<string, Task>): ReadonlyMap<string, string> {
  const titles = new Map(nodes.map(({ id, title }) => [id, oneLine(title, 60)]))
  return new Map(
    nodes.flatMap(({ id, status }) => {
      const conflict = conflictOf({ status, error_message: unmerged.get(id)?.error_message })
      return conflict ? [[id, conflictWords(conflict, (other) => titles.get(other))] as const] : []
    }),
  )
}

type ConflictsProps = { items: ReadonlyMap<string, string>; titleOf: (id: string) => string; onChoose: (id: string) => void }

/** Nothing comes of these, or of what waits for them, until a person merges what they build on. */
function Conflicts({ items, titleOf, onChoose }: ConflictsProps) {
  return (
    <details open className="border-b border-line bg-bad-soft px-4 py-1 text-bad">
      <summary className="min-h-6 cursor-pointer">
        {items.size === 1 ? 'One task cannot begin: what it builds on' : `${items.size} tasks cannot begin: what they build on`} does not go together
      </summary>
      <ul className="max-h-40 overflow-auto">
        {[...items].map(([id, words]) => (
          <li key={id} className="flex flex-wrap gap-x-2 py-0.5">
            <Name id={id} title={titleOf(id)} onChoose={onChoose} />
            <span className="untrusted text-xs">{words}</span>
          </li>
        ))}
      </ul>
    </details>
  )
}

function Name({ id, title, onChoose }: { id: string; title: string; onChoose: (id: string) => void }) {
  return (
    <button type="button" onClick={() => onChoose(id)} className="untrusted min-h-6 cursor-pointer text-left underline">
      {oneLine(title, 80) || shortId(id)}
    </button>
  )
}
