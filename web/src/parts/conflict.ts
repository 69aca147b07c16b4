// A task that cannot begin because what it builds on does not go together, read from the reason that the server gives.

import type { Task } from '../api/types'
import { nameOf, shortId } from '../ui/plain'

type Side = { id: string; branch: string | undefined }

export type Conflict = {
  between: [Side, Side]
  /** As the server lists them: the first few, and how many more. */
  files: string
  /** Where a merge of both has to be pushed before the task is retried. */
  branch: string
}

const SIDE = String.raw`(task-[\w.-]+)(?: on (\S+))?`
const REASON = new RegExp(
  String.raw`^what it builds on does not go together: ${SIDE} and ${SIDE} conflict in (.+); merge them, push that to the project's repository as (\S+), and retry the task$`,
  's',
)

export type Reasoned = Pick<Task, 'status'> & { error_message?: string | null | undefined }

/** Nothing for a task that stands where it stands for another reason. */
export function conflictOf({ status, error_message }: Reasoned): Conflict | undefined {
  if (status !== 'failed') return undefined
  const [, one, onBranch, two, twoBranch, files, branch] = REASON.exec(error_message ?? '') ?? []
  if (!one || !two || !files || !branch) return undefined
  return { between: [{ id: one, branch: onBranch }, { id: two, branch: twoBranch }], files, branch }
}

/** `titleOf` knows some of the tasks. */
export function conflictWords({ between, files }: Conflict, titleOf: (id: string) => string | undefined = () => undefined): string {
  const [one, two] = between.map(({ id }) => titleOf(id) ?? shortId(id))
  return `cannot begin: ${one} and ${two}, which it builds on, conflict in ${nameOf(files)}`
}
