import { describe, expect, test } from 'vitest'
import { REQUIREMENTS } from './fixtures'
import { designOf, notesOf, requirementsOf, ticketsOf, words } from './output'

describe('an output', () => {
  test('is read part by part', () => {
    expect(requirementsOf(REQUIREMENTS)).toMatchObject([
      { id: 'REQ-REPLAY-FUNC-001', kind: 'functional', priority: 'must', criteria: ['all events are shown', 'in their order'] },
    ])
    const design = designOf({
      architecture_overview: 'one store',
      components: [{ name: 'store', file_path: 'src/store.rs', action: 'create', responsibility: 'keeps', requirements: ['REQ-1'] }],
      data_models: [{ name: 'event', fields: { id: 'text', at: { type: 'time', null: false } } }],
      api_endpoints: [{ method: 'GET', path: '/x', description: 'shows', auth_required: false }],
    })
    expect(design.components).toMatchObject([{ name: 'store', file: 'src/store.rs', action: 'create', words: 'keeps' }])
    expect(design.models[0]?.fields).toEqual([
      ['id', 'text'],
      ['at', 'time; null: false'],
    ])
    expect(design.endpoints[0]?.isOpen).toBe(true)
  })

  test('has tasks under their tickets, and those of no ticket last', () => {
    const tickets = ticketsOf({
      tickets: [{ id: 'TKT-1', title: 'first' }],
      tasks: [
        { id: 'TSK-2', title: 'lost', parent_ticket: 'TKT-9' },
        { id: 'TSK-1', title: 'found', parent_ticket: 'TKT-1', estimate: 'S', estimated_hours: 2, files_to_create: ['a'], files_to_modify: ['b'] },
      ],
    })
    expect(tickets.map(({ id, tasks }) => [id, tasks.map((task) => task.id)])).toEqual([
      ['TKT-1', ['TSK-1']],
      ['', ['TSK-2']],
    ])
    expect(tickets[0]?.tasks[0]).toMatchObject({ estimate: 'S, 2 h', files: ['a', 'b'] })
  })

  test('tells what is open, left out and taken for granted, phase by phase', () => {
    expect(notesOf('requirements', REQUIREMENTS)).toEqual({
      questions: ['For how long?; owner: ada'],
      outOfScope: ['video'],
      assumptions: [],
    })
    expect(notesOf('prd', { scope: { out_of_scope: ['x'] }, open_questions: ['y'], assumptions: ['z'] })).toEqual({
      questions: ['y'],
      outOfScope: ['x'],
      assumptions: ['z'],
    })
    expect(notesOf('explore', { discovery_questions: [{ questions: ['q'] }], feature_summary: { scope_out: ['s'] } })).toEqual({
      questions: ['q'],
      outOfScope: ['s'],
      assumptions: [],
    })
  })

  test.each([null, undefined, 7, 'text', [], { requirements: 'x', tasks: [1, null], components: {} }])(
    'of the wrong shape has no parts: %j',
    (odd) => {
      expect(requirementsOf(odd)).toEqual([])
      expect(ticketsOf(odd)).toEqual([])
      expect(designOf(odd).components).toEqual([])
      expect(notesOf('requirements', odd).questions).toEqual([])
    },
  )

  test('is told in words whatever it holds', () => {
    expect(words({ name: 'x', mode: { strict: true }, none: null })).toBe('x; mode: strict: true')
    expect(words(['a', 1, { b: 'c' }])).toBe('a, 1, b: c')
  })
})
