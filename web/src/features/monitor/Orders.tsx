import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState, type FormEvent, type ReactNode } from 'react'
import { asProblem } from '../../api/problem'
import { useSession } from '../../api/session'
import type { Action, Priority, Project, Task } from '../../api/types'
import { tell } from '../../app/toast'
import { Button } from '../../ui/Button'
import { SelectField, TextField } from '../../ui/Field'
import { ErrorPanel, Skeleton } from '../../ui/panels'
import { oneLine } from '../../ui/plain'
import { Quiet, Section } from '../../ui/Section'
import { useDeed } from './parts'
import { actionRevert, openTasks, placesMove, priorityOverride, projectHold, projectNames, taskCancel } from './queries'

const CHARS = 100
const PRIORITIES: Record<Priority, string> = { CRITICAL: 'critical', HIGH: 'high', MEDIUM: 'medium', LOW: 'low' }
const ORDERS = { hold: 'Pause or resume', cancel: 'Cancel a task', priority: 'Change a priority', places: 'Move places' }
type Kind = keyof typeof ORDERS

/** What can be ordered of a project by authority, one at a time. */
export function Orders({ project }: { project: Project }) {
  const [kind, setKind] = useState<Kind>('hold')
  const isAdmin = useSession()?.role === 'admin'
  const name = oneLine(project.name, CHARS)
  const offered = (Object.keys(ORDERS) as Kind[]).filter((one) => one !== 'places' || isAdmin)
  return (
    <Section
      title={{ hold: project.paused ? `${name} is paused` : `Pause ${name}`, cancel: `Cancel a task of ${name}`, priority: `Change a priority in ${name}`, places: `Move places of ${name}` }[kind]}
      aside={
        <label className="ml-auto flex items-center gap-2 text-xs text-muted">
          Order
          <select
            value={kind}
            onChange={(event) => setKind(offered.find((one) => one === event.target.value) ?? 'hold')}
            className="h-7 rounded border border-line-strong bg-surface px-1 text-fg"
          >
            {offered.map((one) => (
              <option key={one} value={one}>
                {ORDERS[one]}
              </option>
            ))}
          </select>
        </label>
      }
    >
      <Chosen key={kind} kind={kind} project={project} />
    </Section>
  )
}

function Chosen({ kind, project }: { kind: Kind; project: Project }) {
  switch (kind) {
    case 'hold':
      return <Hold key={String(project.paused)} project={project} />
    case 'cancel':
      return <OfTask project={project}>{(tasks) => <Cancel tasks={tasks} />}</OfTask>
    case 'priority':
      return <OfTask project={project}>{(tasks) => <Prioritise tasks={tasks} />}</OfTask>
    case 'places':
      return <Move project={project} />
    default:
      return kind satisfies never
  }
}

function Hold({ project: { id, name, paused = false } }: { project: Project }) {
  return (
    <Order
      words={paused ? 'Its tasks wait until it goes on.' : 'Its tasks wait then; what runs already runs to its end.'}
      action={paused ? 'Let it go on' : 'Pause the project'}
      done={`${oneLine(name, CHARS)} ${paused ? 'goes on' : 'is paused'}.`}
      run={(reason) => projectHold(id, !paused, reason)}
    />
  )
}

function Cancel({ tasks }: { tasks: readonly Task[] }) {
  const [task, choice] = useTask(tasks)
  return (
    <Order
      words="What it has done is kept. Taken back, it waits to be done again."
      action="Cancel the task"
      done={`${titleOf(task)} is cancelled.`}
      run={task && ((reason) => taskCancel(task.id, reason))}
    >
      {choice}
    </Order>
  )
}

function Prioritise({ tasks }: { tasks: readonly Task[] }) {
  const [task, choice] = useTask(tasks)
  const [wanted, setWanted] = useState<Priority>()
  const priority = wanted ?? task?.priority ?? 'MEDIUM'
  return (
    <Order
      words="Of what waits, the most urgent begins first."
      action="Change the priority"
      done={`${titleOf(task)} is ${PRIORITIES[priority]} now.`}
      run={task && priority !== task.priority ? (reason) => priorityOverride(task.id, priority, reason) : undefined}
    >
      {choice}
      <SelectField
        label="Priority"
        required
        value={priority}
        options={Object.entries(PRIORITIES).map(([value, label]) => ({ value, label }))}
        onChange={(value) => setWanted(value as Priority)}
      />
    </Order>
  )
}

/** Of how many sandboxes of a project may live at once, some go to another one. */
function Move({ project: { id } }: { project: Project }) {
  const projects = useQuery(projectNames())
  const others = projects.data?.items.filter((one) => one.id !== id) ?? []
  const [to, setTo] = useState('')
  const [places, setPlaces] = useState('1')
  const taker = others.find((one) => one.id === to) ?? others[0]
  if (!taker) return <Quiet>There is no other project that could have them.</Quiet>
  const isNumber = /^[1-9]\d{0,3}$/.test(places)
  return (
    <Order
      words="So many fewer of its sandboxes live at once, and so many more of the other’s."
      action="Move the places"
      done={`${oneLine(taker.name, CHARS)} has more places.`}
      run={isNumber ? (reason) => placesMove(id, taker.id, Number(places), reason) : undefined}
    >
      <SelectField
        label="To"
        required
        value={taker.id}
        options={others.map((one) => ({ value: one.id, label: oneLine(one.name, CHARS) }))}
        onChange={setTo}
      />
      <TextField label="How many" required inputMode="numeric" value={places} error={isNumber ? undefined : 'A number from 1 to 9999.'} onChange={setPlaces} />
    </Order>
  )
}

/** An order about one of the tasks that are not over. */
function OfTask({ project, children }: { project: Project; children: (tasks: readonly Task[]) => ReactNode }) {
  const tasks = useQuery(openTasks(project.id))
  if (tasks.error) return <ErrorPanel error={asProblem(tasks.error)} onRetry={() => void tasks.refetch()} />
  if (!tasks.data) return <Skeleton rows={2} label="Loading tasks" />
  return tasks.data.length === 0 ? <Quiet>Every task of it is over.</Quiet> : children(tasks.data)
}

function useTask(tasks: readonly Task[]): [Task | undefined, ReactNode] {
  const [id, setId] = useState('')
  const task = tasks.find((one) => one.id === id) ?? tasks[0]
  const options = tasks.map((one) => ({ value: one.id, label: `${titleOf(one)} (${one.status}, ${PRIORITIES[one.priority]})` }))
  return [task, <SelectField key="task" label="Task" required value={task?.id ?? ''} options={options} onChange={setId} />]
}

function titleOf(task: Task | undefined): string {
  return task ? oneLine(task.title, CHARS) : 'The task'
}

type OrderProps = {
  /** What it brings about. */
  words: string
  action: string
  /** What is said once it is done. */
  done: string
  /** None while something is missing. */
  run: ((reason: string) => Promise<Action>) | undefined
  children?: ReactNode
}

/** Nothing is ordered without a reason, and everything can be taken back. */
function Order({ words, action, done, run, children }: OrderProps) {
  const queries = useQueryClient()
  const [reason, setReason] = useState('')
  const fresh = () => Promise.all(['projects', 'supervision'].map((key) => queries.invalidateQueries({ queryKey: [key] })))
  const ordering = useDeed(async () => {
    const made = await run?.(reason.trim())
    if (made) tell({ words: done, undo: () => actionRevert(made.id).finally(fresh) })
    setReason('')
    await fresh()
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    ordering.mutate(undefined)
  }
  return (
    <>
      <form onSubmit={submit} className="flex flex-col items-start gap-2 p-3">
        <p className="text-muted">{words}</p>
        <div className="flex w-full max-w-120 flex-col gap-2">
          {children}
          <TextField label="Why" required value={reason} onChange={setReason} />
        </div>
        <Button type="submit" disabled={ordering.isPending || !run || reason.trim() === ''}>
          {action}
        </Button>
      </form>
      {ordering.error && <ErrorPanel error={asProblem(ordering.error)} />}
    </>
  )
}
