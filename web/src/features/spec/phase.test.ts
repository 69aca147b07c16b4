import { describe, expect, test } from 'vitest'
import { attempt, specDetail } from './fixtures'
import { afterApproval, afterEdit, laterBegun, shownPhase, staleWords, stepsOf } from './phase'
import { asSpecListSearch, asSpecSearch } from './search'
import { followed } from './SpecPage'

describe('the phases of a spec', () => {
  test('are all of its flow, begun or not, and tell which wait for a person', () => {
    expect(stepsOf(specDetail()).map(({ phase, isGate, last }) => [phase, isGate, last?.state])).toEqual([
      ['explore', false, 'passed'],
      ['prd', false, 'passed'],
      ['requirements', true, 'waiting'],
      ['design', true, undefined],
      ['tasks', false, undefined],
      ['sync', false, undefined],
    ])
  })

  test('begin with the one that is asked for, else the one the spec is at', () => {
    expect(shownPhase(specDetail(), 'explore')).toBe('explore')
    expect(shownPhase(specDetail(), undefined)).toBe('requirements')
    const quick = specDetail({ flow: 'quick', flow_phases: ['tasks', 'sync'], current_phase: 'tasks' })
    expect(shownPhase(quick, 'design')).toBe('tasks')
  })
})

describe('a decision', () => {
  test('names what an approval leads to', () => {
    const spec = specDetail()
    expect(afterApproval(spec, 'requirements')).toEqual({
      action: 'Approve and go on to Design',
      words: 'A sandbox starts on Design, which waits for you as well when it is done.',
    })
    expect(afterApproval(spec, 'design').words).toBe('A sandbox starts on Tasks.')
    expect(afterApproval(spec, 'sync').action).toBe('Approve and start the tasks')
  })

  test('names the later phases that it makes stale', () => {
    const begun = specDetail({ phases: [attempt('requirements'), attempt('design'), attempt('tasks')] })
    expect(laterBegun(begun, 'requirements')).toEqual(['design', 'tasks'])
    expect(staleWords(begun, 'requirements')).toBe('Design and Tasks become stale and are redone.')
    expect(staleWords(begun, 'design')).toBe('Tasks becomes stale and is redone.')
    expect(staleWords(begun, 'tasks')).toBe('No later phase was begun, so none becomes stale.')
  })

  test('says whether what is written by hand has to be approved', () => {
    expect(afterEdit(specDetail(), 'design')).toContain('waits to be approved')
    expect(afterEdit(specDetail(), 'prd')).toContain('Requirements follows')
    expect(afterEdit(specDetail(), 'sync')).toContain('its tasks follow')
  })
})

test('the stream is asked for the spec, what works on it and its tasks, each once', () => {
  const items = [
    { symbol: 'TKT-1', title: '', ticket_id: 'tkt-1', task_id: null, status: null },
    { symbol: 'TSK-1', title: '', ticket_id: 'tkt-1', task_id: 'task-1', status: 'pending' as const },
  ]
  const phases = [attempt('explore'), attempt('prd', { state: 'running', sandbox_id: null })]
  expect(followed('spec-1', specDetail({ phases, items }))).toEqual(['spec-1', 'task-prd', 'task-1'])
  expect(followed('spec-1', undefined)).toEqual(['spec-1'])
})

test('an address keeps only what a page knows', () => {
  expect(asSpecSearch({ phase: 'design', attempt: 2, view: 'document', version: 3, odd: 1 })).toEqual({
    phase: 'design',
    attempt: 2,
    view: 'document',
    version: 3,
  })
  expect(asSpecSearch({ phase: 'desing', attempt: 'x', view: 'x', version: -1 })).toEqual({})
  expect(asSpecListSearch({ project: 'prj-1', status: 'waiting' })).toEqual({ project: 'prj-1', status: 'waiting' })
  expect(asSpecListSearch({ project: 7, status: 'odd' })).toEqual({})
})
