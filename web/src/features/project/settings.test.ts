import { expect, test } from 'vitest'
import type { Project } from '../../api/types'
import { formOf, patchOf } from './settings'

const project = (settings: Record<string, unknown>) =>
  ({ id: 'prj-1', name: 'p', repository_url: '/r', default_branch: 'main', max_concurrent: 2, settings }) as Project

const FULL = project({
  model: 'm',
  setup: 'make',
  image: 'debian',
  egress_allow: ['crates.io', '*.example.com'],
  budget_usd: 5,
  checks: [{ name: 'tests', command: 'make test', timeout_seconds: 60 }, { name: 'make lint', command: 'make lint' }],
})

test('a form that was not touched changes nothing', () => {
  expect(patchOf(formOf(FULL), FULL)).toEqual({})
  expect(patchOf(formOf(project({})), project({}))).toEqual({})
})

test('only what was touched is sent, and what the form does not show stays', () => {
  const form = { ...formOf(FULL), model: '', budget_usd: '0', egress_allow: ' a.example \n\n', default_branch: 'trunk' }
  expect(patchOf(form, FULL)).toEqual({
    default_branch: 'trunk',
    settings: {
      setup: 'make',
      image: 'debian',
      egress_allow: ['a.example'],
      budget_usd: 0,
      checks: FULL.settings.checks,
    },
  })
})

test('checks are lines, with a name or without', () => {
  const form = formOf(FULL)
  expect(form.checks).toBe('tests: make test\nmake lint')
  const changed = patchOf({ ...form, checks: 'tests: make test-all\ncargo test -- --skip a::b\n' }, FULL)
  expect(changed.settings?.checks).toEqual([
    { name: 'tests', command: 'make test-all', timeout_seconds: 60 },
    { name: 'cargo test -- --skip a::b', command: 'cargo test -- --skip a::b' },
  ])
  expect(patchOf({ ...form, checks: '' }, FULL).settings).not.toHaveProperty('checks')
})

test('a limit that is emptied is given back to the server', () => {
  expect(patchOf({ ...formOf(FULL), max_concurrent: ' ' }, FULL)).toEqual({ max_concurrent: null })
})

test('what is no number is left to the server to refuse', () => {
  const patch = patchOf({ ...formOf(FULL), budget_usd: 'much', max_concurrent: 'all' }, FULL)
  expect([patch.settings?.budget_usd, patch.max_concurrent]).toEqual(['much', 'all'])
})

test('what somebody else set meanwhile stays', () => {
  const form = { ...formOf(FULL), model: 'other' }
  const newest = { ...FULL.settings, spec: { gates: ['design'] } }
  expect(patchOf(form, FULL, newest)).toEqual({ settings: { ...newest, model: 'other' } })
  expect(patchOf(formOf(FULL), FULL, newest)).toEqual({})
})
