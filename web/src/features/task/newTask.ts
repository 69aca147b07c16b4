// What somebody filled in, as the server wants it. Whatever is left empty is the server's to decide.

import type { NewTask } from '../../api/types'

export type Draft = {
  project: string
  what: string
  model: string
  mode: string
  base: string
  turns: string
  budget: string
  minutes: string
}

export const EMPTY: Draft = { project: '', what: '', model: '', mode: '', base: '', turns: '', budget: '', minutes: '' }

/** Fields with a default are the server's to fill; the types made from its document ask for them all the same. */
export type TaskBody = Pick<NewTask, 'title'> & Partial<NewTask>

const TITLE_CHARS_MAX = 500

/** The first line names the task; all of it says what to do. */
export function newTask(draft: Draft): TaskBody {
  const what = draft.what.trim()
  const title = what.split('\n', 1)[0]?.trim() ?? ''
  const config: Record<string, unknown> = {}
  if (draft.model.trim()) config.model = draft.model.trim()
  if (draft.mode) config.mode = draft.mode
  if (draft.turns.trim()) config.max_turns = number(draft.turns)
  if (draft.budget.trim()) config.budget_usd = number(draft.budget)
  // Where to start from is told with the sandbox: until that is ordered, nobody else may order one that starts elsewhere.
  if (draft.base.trim()) config.autonomous = false
  if (draft.minutes.trim()) config.wall_clock_seconds = seconds(draft.minutes)
  return {
    project_id: draft.project,
    title: title.length > TITLE_CHARS_MAX ? `${title.slice(0, TITLE_CHARS_MAX - 1)}…` : title,
    description: what,
    execution_config: config,
  }
}

/** What is no number goes as it is: the server says what is wrong with it. */
function number(text: string): number | string {
  const value = Number(text.trim())
  return Number.isFinite(value) ? value : text.trim()
}

function seconds(minutes: string): number | string {
  const value = number(minutes)
  return typeof value === 'number' ? Math.round(value * 60) : value
}
