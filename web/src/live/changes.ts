// What the stream calls the changes of a task.

export const TASK_CHANGES = [
  'TASK_CREATED',
  'TASK_STATUS_CHANGED',
  'TASK_ASSIGNED',
  'TASK_STARTED',
  'TASK_COMPLETED',
  'TASK_FAILED',
  'TASK_CANCELLED',
  'TASK_UPDATED',
  'TASK_WAITING',
  'TASK_RETRY_SCHEDULED',
  'TASK_TIMED_OUT',
  'TASK_DEPENDENCY_UPDATED',
  'TASKS_UNBLOCKED',
  'TASK_FOOTPRINT_OVERLAP',
] as const

/** What the stream calls the changes of what Guardian, Conductor and monitor know. What is on a sandbox's own time line has its prefix. */
export const SUPERVISION_CHANGES = [
  'SANDBOX_guardian.finding',
  'SANDBOX_guardian.cleared',
  'SANDBOX_guardian.judgement',
  'SANDBOX_guardian.intervention.effect',
  ...[
    'suggested',
    'approved',
    'dismissed',
    'sent',
    'queued',
    'delivered',
    'injected',
    'acknowledged',
    'done',
    'failed',
    'expired',
    'started',
    'completed',
    'reverted',
  ].map((state) => `guardian.intervention.${state}`),
  'guardian.resource.reallocated',
  'conductor.conflict.found',
  'conductor.conflict.changed',
  'conductor.conflict.cleared',
  'conductor.duplicate.found',
  'conductor.duplicate.dismissed',
  'monitor.anomaly.detected',
  'monitor.anomaly.acknowledged',
  'diagnostic.completed',
  'diagnostic.decided',
  'POLICY_CHANGED',
]

/** An agent asks, and goes on. */
export const ASKING = ['SANDBOX_agent.waiting', 'SANDBOX_agent.message_injected', 'SANDBOX_agent.completed']

/** What changes the list of what waits for a person. */
export const NEED_CHANGES = [
  ...ASKING,
  ...SUPERVISION_CHANGES,
  ...TASK_CHANGES,
  'SANDBOX_UNKEPT',
  'SANDBOX_KEPT',
  'SANDBOX_REMOVED',
  'SPEC_PHASE_STARTED',
  'SPEC_PHASE_JUDGED',
  'SPEC_PHASE_DECIDED',
  'SPEC_UPDATED',
]
