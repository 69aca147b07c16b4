// What a phase has put out, read part by part. Agents write it and the server holds it to a shape that leaves much open,
// so that whatever is not as expected here is left out; the document shows all of it.

import type { SpecPhase } from '../../api/types'

export type Requirement = {
  id: string
  title: string
  kind: string
  priority: string
  text: string
  criteria: string[]
  stories: string[]
  dependencies: string[]
}

export type Component = { name: string; kind: string; action: string; file: string; words: string; requirements: string[] }
export type Model = { name: string; words: string; fields: [string, string][] }
export type Endpoint = { method: string; path: string; words: string; isOpen: boolean }
export type Design = { overview: string; diagram: string; components: Component[]; models: Model[]; endpoints: Endpoint[] }

export type PlannedTask = {
  id: string
  title: string
  words: string
  ticket: string
  priority: string
  estimate: string
  dependsOn: string[]
  files: string[]
  requirements: string[]
  criteria: string[]
}
export type PlannedTicket = { id: string; title: string; tasks: PlannedTask[] }

export type Notes = { questions: string[]; outOfScope: string[]; assumptions: string[] }

export function requirementsOf(output: unknown): Requirement[] {
  return parts(output, 'requirements').map((part) => ({
    id: text(part.id),
    title: text(part.title),
    kind: text(part.type) || text(part.category),
    priority: text(part.priority),
    text: text(part.text),
    criteria: texts(part.acceptance_criteria),
    stories: texts(part.user_stories),
    dependencies: texts(part.dependencies),
  }))
}

export function designOf(output: unknown): Design {
  const design = object(output)
  return {
    overview: text(design.architecture_overview),
    diagram: text(design.architecture_diagram),
    components: parts(design, 'components').map((part) => ({
      name: text(part.name),
      kind: text(part.type),
      action: text(part.action),
      file: text(part.file_path),
      words: text(part.responsibility) || text(part.description),
      requirements: texts(part.requirements),
    })),
    models: parts(design, 'data_models').map((part) => ({
      name: text(part.name),
      words: text(part.description),
      fields: Object.entries(object(part.fields)).map(([name, kind]) => [name, words(kind)]),
    })),
    endpoints: parts(design, 'api_endpoints').map((part) => ({
      method: text(part.method),
      path: text(part.path),
      words: text(part.description),
      isOpen: part.auth_required === false,
    })),
  }
}

/** Tickets in their order with their tasks; a task whose ticket is not there comes last, under none. */
export function ticketsOf(output: unknown): PlannedTicket[] {
  const tasks = parts(output, 'tasks').map(plannedTask)
  const tickets = parts(output, 'tickets').map((part) => {
    const id = text(part.id)
    return { id, title: text(part.title), tasks: tasks.filter((task) => task.ticket === id) }
  })
  const known = new Set(tickets.map(({ id }) => id))
  const rest = tasks.filter((task) => !known.has(task.ticket))
  return rest.length > 0 ? [...tickets, { id: '', title: 'Under no ticket', tasks: rest }] : tickets
}

export function criticalPathOf(output: unknown): string[] {
  return texts(object(output).critical_path)
}

/** What is left to ask, left out and taken for granted. */
export function notesOf(phase: SpecPhase, output: unknown): Notes {
  const told = object(output)
  switch (phase) {
    case 'explore':
      return {
        questions: parts(told, 'discovery_questions').flatMap((part) => texts(part.questions)),
        outOfScope: texts(object(told.feature_summary).scope_out),
        assumptions: [],
      }
    case 'prd':
      return {
        questions: texts(told.open_questions),
        outOfScope: texts(object(told.scope).out_of_scope),
        assumptions: texts(told.assumptions),
      }
    case 'requirements':
      return { questions: texts(told.open_questions), outOfScope: texts(told.out_of_scope), assumptions: texts(told.assumptions) }
    case 'design':
    case 'tasks':
    case 'sync':
      return { questions: [], outOfScope: [], assumptions: [] }
    default:
      return phase satisfies never
  }
}

/** Anything in words: the text of an object before its other fields. */
export function words(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (typeof value === 'string') return value
  if (typeof value !== 'object') return JSON.stringify(value)
  if (Array.isArray(value)) return value.map(words).filter(Boolean).join(', ')
  return Object.entries(value)
    .map(([key, part]) => [key.replaceAll('_', ' '), words(part)] as const)
    .filter(([, said]) => said !== '')
    .map(([key, said], n) => (n === 0 && TELLING.includes(key) ? said : `${key}: ${said}`))
    .join('; ')
}

const TELLING = ['question', 'text', 'description', 'name', 'title', 'assumption', 'type']

function plannedTask(part: Record<string, unknown>): PlannedTask {
  const hours = part.estimated_hours
  return {
    id: text(part.id),
    title: text(part.title),
    words: text(part.description),
    ticket: text(part.parent_ticket),
    priority: text(part.priority),
    estimate: [text(part.estimate), typeof hours === 'number' ? `${hours} h` : ''].filter(Boolean).join(', '),
    dependsOn: texts(object(part.dependencies).depends_on),
    files: [...texts(part.files_to_create), ...texts(part.files_to_modify)],
    requirements: texts(part.requirements_addressed),
    criteria: texts(part.acceptance_criteria),
  }
}

function object(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}
}

function parts(of: unknown, key: string): Record<string, unknown>[] {
  const list = object(of)[key]
  return Array.isArray(list) ? list.filter((part) => typeof part === 'object' && part !== null && !Array.isArray(part)) : []
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : words(value)
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.map(words).filter((said) => said !== '') : []
}
