import { expect, test } from 'vitest'
import type { Evidence } from '../../api/types'
import { checkedAfter } from './checked'

type Attempt = Evidence['attempts'][number]

function attempt(sandbox_id: string, stage: Attempt['stage'], status: Attempt['status'], end_reason?: string): Attempt {
  return { sandbox_id, stage, status, created_at: '2026-11-16T09:00:00Z', ...(end_reason && { end_reason }) }
}

const work = attempt('sbx-1', 'work', 'completed', 'work_completed')

test.each([
  ['nobody has checked it', [work], 'open'],
  ['its checks run', [work, attempt('sbx-2', 'check', 'running')], 'open'],
  ['its checks passed', [work, attempt('sbx-2', 'check', 'completed')], 'passed'],
  ['its checks failed, and it was worked on again', [work, attempt('sbx-2', 'check', 'failed', 'checks_failed'), attempt('sbx-3', 'work', 'running')], 'failed'],
  ['the first that checked it was lost', [work, attempt('sbx-2', 'check', 'lost'), attempt('sbx-3', 'check', 'completed')], 'passed'],
  ['only what came before it was checked', [attempt('sbx-0', 'check', 'completed'), work], 'open'],
  ['it was worked on again without a check', [work, attempt('sbx-2', 'work', 'completed'), attempt('sbx-3', 'check', 'completed')], 'open'],
])('where %s', (_what, attempts, checked) => {
  expect(checkedAfter(attempts, 'sbx-1')).toBe(checked)
})
