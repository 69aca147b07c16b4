import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { SpecDetail, SpecItem } from '../../../api/types'
import { nameOf, plain } from '../../../ui/plain'
import { Quiet } from '../../../ui/Section'
import { State } from '../../../ui/State'
import { criticalPathOf, ticketsOf, type PlannedTask } from '../output'

/** What is planned, and what has become of it. */
export function Tasks({ spec, output }: { spec: SpecDetail; output: unknown }) {
  const tickets = ticketsOf(output)
  const path = criticalPathOf(output)
  const made = new Map(spec.items.map((item) => [item.symbol, item]))
  if (tickets.length === 0) return <Quiet>It names no task.</Quiet>
  return (
    <>
      <div
        role="region"
        aria-label="Table of tasks"
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard
        tabIndex={0}
        className="overflow-x-auto"
      >
        <table className="w-full min-w-150 text-left">
          <thead className="text-2xs text-subtle">
            <tr className="h-7 border-b border-line">
              <Head>Task</Head>
              <Head>State</Head>
              <Head>After</Head>
              <Head>Estimate</Head>
              <Head>Files</Head>
              <Head>Requirements</Head>
            </tr>
          </thead>
          {tickets.map(({ id, title, tasks }) => (
            <tbody key={id}>
              <tr className="border-b border-line bg-sunken">
                <th scope="colgroup" colSpan={6} className="px-3 py-1 text-xs font-medium">
                  <span className="untrusted font-mono text-muted">{nameOf(id)}</span>{' '}
                  <span className="untrusted">{plain(title)}</span>
                </th>
              </tr>
              {tasks.map((task) => (
                <Row key={task.id} task={task} item={made.get(task.id)} />
              ))}
            </tbody>
          ))}
        </table>
      </div>
      <p className="flex flex-wrap gap-x-4 gap-y-1 border-t border-line px-3 py-2 text-xs text-muted">
        {path.length > 0 && <span className="untrusted">Longest chain: {path.map(nameOf).join(' → ')}</span>}
        {spec.project_id && spec.items.length > 0 && <GraphLink project={spec.project_id} />}
      </p>
    </>
  )
}

/** The graph of all tasks of the project. */
function GraphLink({ project }: { project: string }) {
  return (
    <Link to="/graph" search={{ id: project }} className="text-accent underline">
      Show as a graph
    </Link>
  )
}

function Head({ children }: { children: ReactNode }) {
  return (
    <th scope="col" className="px-3 font-medium">
      {children}
    </th>
  )
}

function Row({ task, item }: { task: PlannedTask; item: SpecItem | undefined }) {
  return (
    <tr className="border-b border-line align-top last:border-b-0 hover:bg-raised">
      <th scope="row" className="px-3 py-1.5 font-normal">
        <span className="untrusted font-mono text-xs text-muted">{nameOf(task.id)}</span>{' '}
        {item?.task_id ? (
          <Link to="/tasks/$id" params={{ id: item.task_id }} className="untrusted text-accent hover:underline">
            {plain(task.title)}
          </Link>
        ) : (
          <span className="untrusted">{plain(task.title)}</span>
        )}
        <p className="untrusted text-xs text-muted">{plain(task.words)}</p>
      </th>
      <td className="px-3 py-1.5">{item?.status ? <State state={item.status} /> : <span className="text-muted">planned</span>}</td>
      <td className="untrusted px-3 py-1.5 font-mono text-xs text-muted">{task.dependsOn.map(nameOf).join(', ') || '–'}</td>
      <td className="untrusted px-3 py-1.5 text-muted">{nameOf(task.estimate) || '–'}</td>
      <td className="untrusted px-3 py-1.5 font-mono text-xs text-muted">{task.files.map(nameOf).join('\n') || '–'}</td>
      <td className="untrusted px-3 py-1.5 font-mono text-xs text-muted">{task.requirements.map(nameOf).join('\n') || '–'}</td>
    </tr>
  )
}
