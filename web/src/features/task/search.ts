// What the page of a task keeps in its address.

export const TASK_TABS = ['attempts', 'proof', 'changes', 'dependencies', 'history'] as const
export type TaskTab = (typeof TASK_TABS)[number]

export type TaskSearch = {
  tab?: TaskTab | undefined
  /** The sandbox whose changes are shown; the newest where none is named. */
  attempt?: string | undefined
  file?: string | undefined
  /** One edit of the file, by its `seq`. */
  event?: number | undefined
}

export function asTaskSearch(search: Record<string, unknown>): TaskSearch {
  const tab = TASK_TABS.find((one) => one === search.tab)
  const { attempt, file, event } = search
  return {
    ...(tab && { tab }),
    ...(typeof attempt === 'string' && { attempt }),
    ...((typeof file === 'string' || typeof file === 'number') && { file: String(file) }),
    ...(typeof event === 'number' && Number.isSafeInteger(event) && event > 0 && { event }),
  }
}
