// A project's settings as a form shows them, and back. What the form does not show stays as it is.

import type { Project, ProjectPatch } from '../../api/types'

export type Form = {
  name: string
  repository_url: string
  default_branch: string
  max_concurrent: string
  model: string
  setup: string
  git_author_name: string
  git_author_email: string
  egress_allow: string
  budget_usd: string
  checks: string
}

type Check = { name: string; command: string; timeout_seconds?: unknown }

export function formOf({ name, repository_url, default_branch, max_concurrent, settings }: Project): Form {
  const word = (key: string) => {
    const value = settings[key]
    return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
  }
  const list = (key: string): unknown[] => (Array.isArray(settings[key]) ? (settings[key] as unknown[]) : [])
  return {
    name,
    repository_url: repository_url ?? '',
    default_branch,
    max_concurrent: max_concurrent?.toString() ?? '',
    model: word('model'),
    setup: word('setup'),
    git_author_name: word('git_author_name'),
    git_author_email: word('git_author_email'),
    egress_allow: list('egress_allow').map(String).join('\n'),
    budget_usd: word('budget_usd'),
    checks: checksOf(settings).map(line).join('\n'),
  }
}

/** Only what differs from what the form was filled from; `newest` is what it is put into, so that nobody's change beside it is undone. */
export function patchOf(form: Form, project: Project, newest = project.settings): ProjectPatch {
  const old = formOf(project)
  const patch: ProjectPatch = {}
  for (const key of ['name', 'repository_url', 'default_branch'] as const) {
    if (form[key] !== old[key]) patch[key] = form[key].trim()
  }
  if (form.max_concurrent !== old.max_concurrent) {
    patch.max_concurrent = form.max_concurrent.trim() ? (number(form.max_concurrent) as number) : null
  }
  const settings: Record<string, unknown> = { ...newest }
  const put = (key: string, value: unknown, isEmpty: boolean) => {
    if (isEmpty) delete settings[key]
    else settings[key] = value
  }
  for (const key of ['model', 'git_author_name', 'git_author_email'] as const) {
    if (form[key] !== old[key]) put(key, form[key].trim(), !form[key].trim())
  }
  if (form.setup !== old.setup) put('setup', form.setup, !form.setup.trim())
  if (form.budget_usd !== old.budget_usd) put('budget_usd', number(form.budget_usd), !form.budget_usd.trim())
  if (form.egress_allow !== old.egress_allow) {
    const hosts = lines(form.egress_allow)
    put('egress_allow', hosts, hosts.length === 0)
  }
  if (form.checks !== old.checks) {
    const checks = lines(form.checks).map((text) => check(text, checksOf(project.settings)))
    put('checks', checks, checks.length === 0)
  }
  if (JSON.stringify(settings) !== JSON.stringify(newest)) patch.settings = settings
  return patch
}

function checksOf(settings: Record<string, unknown>): Check[] {
  const given: unknown[] = Array.isArray(settings.checks) ? settings.checks : []
  return given.flatMap((one): Check[] => {
    if (typeof one === 'string') return [{ name: one, command: one }]
    if (typeof one !== 'object' || one === null) return []
    const { name, command, ...rest } = one as Record<string, unknown>
    return typeof command === 'string' ? [{ name: typeof name === 'string' ? name : command, command, ...rest }] : []
  })
}

function line({ name, command }: Check): string {
  return name === command ? command : `${name}: ${command}`
}

/** `name: command`, or a command that is its own name. A check that was there keeps what the line does not show. */
function check(text: string, old: Check[]): Check {
  const named = /^([\w .-]{1,50}):\s+(.+)$/.exec(text)
  const [name, command] = named?.[1] && named[2] ? [named[1].trim(), named[2]] : [text, text]
  return { ...old.find((known) => known.name === name), name, command }
}

function lines(text: string): string[] {
  return text
    .split('\n')
    .map((one) => one.trim())
    .filter((one) => one !== '')
}

/** What is no number goes as it is: the server says what is wrong with it. */
function number(text: string): number | string {
  const value = Number(text.trim())
  return Number.isFinite(value) ? value : text.trim()
}
