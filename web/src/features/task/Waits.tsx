import { useQueries } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Task } from '../../api/types'
import { conflictOf } from '../../parts/conflict'
import { nameOf, oneLine, plain } from '../../ui/plain'
import { taskOne } from './queries'

/** More than these are not looked at one by one. */
export const LOOKED_AT = 20

/** Why it stands still, if it does. */
export function Waits({ task }: { task: Task }) {
  const words = waitWords(task)
  if (words.length === 0) return null
  return (
    <div className="rounded-lg bg-warn-soft px-3 py-2 text-warn">
      <p className="untrusted">{words.join(' ')}</p>
      {task.status === 'pending' && task.unmet_dependencies > 0 && <Stuck ids={task.dependencies} />}
    </div>
  )
}

/** Those it waits for that will not come by themselves, and why. */
function Stuck({ ids }: { ids: readonly string[] }) {
  const on = useQueries({ queries: ids.slice(0, LOOKED_AT).map((id) => taskOne(id)) })
  const stuck = on.flatMap(({ data }) => (data?.status === 'failed' || data?.status === 'cancelled' ? [data] : []))
  return (
    <ul className="empty:hidden">
      {stuck.map((task) => (
        <li key={task.id}>
          <Link to="/tasks/$id" params={{ id: task.id }} className="untrusted underline">
            {oneLine(task.title, 120)}
          </Link>{' '}
          <span className="untrusted">{stuckWords(task)}</span>
        </li>
      ))}
    </ul>
  )
}

function stuckWords(task: Task): string {
  const conflict = conflictOf(task)
  if (conflict) return `cannot begin: what it builds on conflicts in ${nameOf(conflict.files)}.`
  return task.status === 'failed' ? 'failed.' : 'was cancelled.'
}

export function waitWords(task: Task): string[] {
  const words: string[] = []
  if (task.waiting_reason) words.push(`Waits for you: ${sentence(task.waiting_reason)} Raise the budget, or cancel it.`)
  if (task.status !== 'pending') return words
  if (task.waiting_for) words.push(`Not started yet: ${sentence(task.waiting_for.text)}`)
  else if (task.unmet_dependencies > 0) words.push('Waits until the tasks it depends on are completed.')
  return words
}

function sentence(text: string): string {
  const words = plain(text).trim()
  return /[.!?]$/.test(words) ? words : `${words}.`
}
