import { plain } from '../../ui/plain'
import type { Task } from '../../api/types'

/** Why it stands still, if it does. */
export function Waits({ task }: { task: Task }) {
  const words = waitWords(task)
  return words.length > 0 ? <p className="untrusted rounded-lg bg-warn-soft px-3 py-2 text-warn">{words.join(' ')}</p> : null
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
