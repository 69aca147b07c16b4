import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { asProblem } from '../../api/problem'
import type { Action } from '../../api/types'
import { Button } from '../../ui/Button'
import { ErrorPanel } from '../../ui/panels'
import { nameOf, oneLine, plain, shortId } from '../../ui/plain'
import { Section } from '../../ui/Section'
import { Ago } from '../../ui/Time'
import { Badge } from './Badge'
import type { TabProps } from './MonitorPage'
import { Orders } from './Orders'
import { List, ProjectChoice, SandboxLink, TaskLink, useDeed, useMayAct } from './parts'
import { actionList, actionRevert, projectNames } from './queries'

const CHARS = 100
const KINDS: Record<Action['action_type'], string> = {
  cancel_task: 'cancelled',
  override_priority: 'priority changed',
  reallocate_capacity: 'places moved',
  pause: 'paused',
  resume: 'let go on',
}

/** What people did by authority, and how to take it back. */
export function Actions({ search, onSearch, project }: TabProps & { project: string | undefined }) {
  const mayAct = useMayAct()
  const actions = useInfiniteQuery(actionList(search.project))
  const projects = useQuery(projectNames())
  const chosen = projects.data?.items.find(({ id }) => id === project)
  return (
    <>
      <ProjectChoice isAllOffered chosen={search.project} onChoose={(one) => onSearch({ project: one })} />
      {mayAct && chosen && <Orders key={chosen.id} project={chosen} />}
      <Section title="Actions, newest first">
        <List list={actions} label="actions" empty="Nobody has acted by authority.">
          {(items) => (
            <ul>
              {items.map((action) => (
                <Row key={action.id} action={action} />
              ))}
            </ul>
          )}
        </List>
      </Section>
    </>
  )
}

function Row({ action }: { action: Action }) {
  const { action_type, reason, initiated_by, before, after, executed_at, reverted_at, reverted_by } = action
  const mayAct = useMayAct()
  const reverting = useDeed(() => actionRevert(action.id))
  return (
    <li className="flex flex-col gap-1 border-b border-line px-3 py-2 last:border-b-0">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-0.5">
        <Badge tone={reverted_at ? 'muted' : 'guard'}>{reverted_at ? `${KINDS[action_type]}, taken back` : KINDS[action_type]}</Badge>
        <Target action={action} />
        <span className="untrusted text-muted">by {nameOf(initiated_by)}</span>
        <span className="ml-auto text-xs text-muted">
          <Ago at={executed_at} />
        </span>
      </div>
      <p className="untrusted">{plain(reason)}</p>
      <div className="flex flex-wrap items-center gap-x-3 text-xs text-muted">
        {differences(before, after).map((words) => (
          <span key={words} className="untrusted font-mono">
            {words}
          </span>
        ))}
        {reverted_at ? (
          <span className="untrusted">
            taken back by {nameOf(reverted_by ?? 'somebody')} <Ago at={reverted_at} />
          </span>
        ) : (
          mayAct && (
            <Button disabled={reverting.isPending} onClick={() => reverting.mutate(undefined)}>
              {reverting.isPending ? 'Taking back…' : 'Take back'}
            </Button>
          )
        )}
      </div>
      {reverting.error && <ErrorPanel error={asProblem(reverting.error)} />}
    </li>
  )
}

function Target({ action: { entity_type, target_entity } }: { action: Action }) {
  switch (entity_type) {
    case 'task':
      return <TaskLink id={target_entity} />
    case 'sandbox':
      return <SandboxLink id={target_entity} />
    case 'project':
      return <ProjectLink id={target_entity} />
    default:
      return <span className="untrusted font-mono text-xs">{nameOf(target_entity)}</span>
  }
}

function ProjectLink({ id }: { id: string }) {
  const projects = useQuery(projectNames())
  const name = projects.data?.items.find((project) => project.id === id)?.name
  return (
    <Link to="/projects/$id" params={{ id }} title={id} className="untrusted inline-flex min-h-6 items-center text-accent hover:underline">
      {name ? oneLine(name, CHARS) : shortId(id)}
    </Link>
  )
}

/** What is another than it was, field by field. */
export function differences(before: unknown, after: unknown): string[] {
  const [old, now] = [fieldsOf(before), fieldsOf(after)]
  return [...new Set([...Object.keys(old), ...Object.keys(now)])]
    .filter((name) => JSON.stringify(old[name]) !== JSON.stringify(now[name]))
    .map((name) => `${nameOf(name)}: ${shown(old[name])} → ${shown(now[name])}`)
}

function fieldsOf(data: unknown): Record<string, unknown> {
  return typeof data === 'object' && data !== null ? (data as Record<string, unknown>) : {}
}

function shown(value: unknown): string {
  if (value === undefined || value === null) return 'nothing'
  return oneLine(typeof value === 'string' ? value : JSON.stringify(value), CHARS)
}
