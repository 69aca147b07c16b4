// Why a sandbox ended, in words for people.

const WORDS: Record<string, string> = {
  completed: 'done',
  work_completed: 'work done, checks next',
  task_completed: 'task completed',
  agent: 'the agent failed',
  agent_failed: 'the agent failed',
  checks_failed: 'its checks failed',
  limit: 'reached a limit',
  lost: 'was lost',
  crashed: 'crashed',
  shut_down: 'was shut down',
  out_of_memory: 'ran out of memory',
  timed_out: 'took too long',
  spawn: 'could not be made',
  unavailable: 'something it needs was not there',
  invalid: 'was told what cannot be done',
  lease_expired: 'fell silent',
  idle_timeout: 'had nothing to do',
  stuck_running: 'was stuck',
  task_cancelled: 'its task was cancelled',
  terminated: 'was stopped',
  pruned: 'was removed, for nobody used it',
}

/** A reason that is not known is shown as it is told, for it may be a newer server's. */
export function endedWords(reason: string): string {
  return Object.hasOwn(WORDS, reason) ? (WORDS[reason] ?? reason) : reason.replaceAll('_', ' ')
}
