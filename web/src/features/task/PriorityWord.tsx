import type { Priority } from '../../api/types'

/** A word; coloured only where it should be seen. */
export function PriorityWord({ priority }: { priority: Priority }) {
  const tone = priority === 'CRITICAL' ? 'font-medium text-bad' : priority === 'HIGH' ? 'font-medium text-warn' : 'text-subtle'
  return <span className={tone}>{priority.toLowerCase()}</span>
}
