// A spec for tests: its requirements wait for a person, two phases before them passed.

import type { PhaseAttempt, PhaseDetail, SpecDetail, SpecDuplicate, SpecPhase, SpecSummary } from '../../api/types'

export function attempt(phase: SpecPhase, change: Partial<PhaseAttempt> = {}): PhaseAttempt {
  return {
    phase,
    attempt: 1,
    state: 'passed',
    task_id: `task-${phase}`,
    sandbox_id: `sbx-${phase}`,
    edited_by: null,
    commit: '2ffbca57368c',
    score: 0.86,
    findings: [],
    feedback: null,
    started_at: '2026-11-16T09:00:00Z',
    ended_at: '2026-11-16T09:00:42Z',
    ...change,
  }
}

export function specDetail(change: Partial<SpecDetail> = {}): SpecDetail {
  return {
    id: 'spec-1',
    project_id: 'prj-1',
    title: 'Event replay',
    description: 'Show again what happened.',
    flow: 'full',
    status: 'waiting',
    current_phase: 'requirements',
    version: 5,
    gates: ['requirements', 'design'],
    threshold: 0.7,
    archived: false,
    last_error: null,
    created_by: 'ada',
    created_at: '2026-11-16T09:00:00Z',
    updated_at: '2026-11-16T09:02:00Z',
    phases: [attempt('explore'), attempt('prd'), attempt('requirements', { state: 'waiting' })],
    flow_phases: ['explore', 'prd', 'requirements', 'design', 'tasks', 'sync'],
    progress: 16,
    items: [],
    cost_usd: 0.42,
    duplicates: [],
    branch: null,
    ...change,
  }
}

export function phaseDetail(phase: SpecPhase, change: Partial<PhaseDetail> = {}): PhaseDetail {
  return { ...attempt(phase), attempts: [1], output: null, markdown: null, comments: [], ...change }
}

/** As a list tells of it. */
export function specSummary(change: Partial<SpecSummary> = {}): SpecSummary {
  return { ...specDetail(), score: 0.86, ...change }
}

/** A task that is much like one which exists. */
export function duplicate(symbol: string, existing: string, change: Partial<SpecDuplicate> = {}): SpecDuplicate {
  return {
    symbol,
    task_id: `task-${symbol}`,
    title: `Own ${symbol}`,
    existing_task_id: existing,
    existing_title: `Old ${existing}`,
    existing_status: 'pending',
    similarity: 0.9,
    decision: null,
    decided_by: null,
    decided_at: null,
    ...change,
  }
}

export const REQUIREMENTS = {
  feature_name: 'replay',
  requirements: [
    {
      id: 'REQ-REPLAY-FUNC-001',
      title: 'Open a run',
      type: 'functional',
      priority: 'must',
      text: 'WHEN a user opens a finished run, THE system SHALL show its events.',
      acceptance_criteria: ['all events are shown', 'in their order'],
      user_stories: ['US-001'],
    },
  ],
  open_questions: [{ question: 'For how long?', owner: 'ada' }],
  out_of_scope: ['video'],
  assumptions: [],
}
