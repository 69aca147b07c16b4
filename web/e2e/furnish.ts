// A server with some of everything, for pages to show.

import { answer, FAILING, type Server } from './server'

export type Furnished = {
  project: string
  /** A task that is completed, one that failed, one that waits for others. */
  completed: string
  failed: string
  blocked: string
  /** The sandboxes of a completed, a failed and a running task. */
  done: string
  broken: string
  live: string
  /** One that nobody has begun. */
  spec: string
}

export async function furnish(server: Server): Promise<Furnished> {
  const project = (await server.project('Shop')).id
  const done = await server.play(project, 'binomial', { title: 'Calculate the binomial coefficient C(50,25)' })
  const broken = await server.play(project, 'boast', FAILING)
  const live = await server.play(project, 'gate', { title: 'Wait at the gate for a word', priority: 'HIGH' })
  // Something for the Guardian to find, and for a person to decide.
  await server.play(project, 'circles', { title: 'Mend the discount' })
  const blocked = await graph(server, project)
  const ticket = { project_id: project, title: 'Customers see prices in their own currency' }
  answer(await server.api.POST('/api/v1/tickets', { body: ticket as never }))
  answer(await server.api.POST('/api/v1/agents', { body: { name: 'laptop', agent_type: 'worker', capabilities: ['python'] } }))
  const idea = { project_id: project, title: 'Gift vouchers', description: 'Customers pay with vouchers.' }
  const spec = answer(await server.api.POST('/api/v1/specs', { body: idea as never }))
  const held = { project_id: (await server.project('Warehouse')).id, reason: 'Its repository moves to another place.' }
  answer(await server.api.POST('/api/v1/guardian/intervention/pause', { body: held }))
  await settled(server, done.task, 'completed')
  await settled(server, broken.task, 'failed')
  await settled(server, live.task, 'running')
  return {
    project,
    completed: done.task,
    failed: broken.task,
    blocked,
    done: done.sandbox,
    broken: broken.sandbox,
    live: live.sandbox,
    spec: spec.id,
  }
}

const TASKS: [key: string, title: string, dependsOn: string[]][] = [
  ['model', 'Model prices with a currency', []],
  ['rates', 'Fetch exchange rates every day', []],
  ['store', 'Store prices per currency', ['model']],
  ['convert', 'Convert prices on request', ['model', 'rates']],
  ['cart', 'Show the cart in the chosen currency', ['store', 'convert']],
  ['invoice', 'Write invoices in the chosen currency', ['store', 'convert']],
  ['docs', 'Describe currencies in the manual', ['cart', 'invoice']],
]

/** Tasks that depend on each other; the id of the last one. */
async function graph(server: Server, project: string): Promise<string> {
  const tasks = TASKS.map(([key, title, depends_on]) => ({ key, title, description: `${title}.`, depends_on }))
  const batch = answer(await server.api.POST('/api/v1/tasks/batch', { body: { project_id: project, tasks } as never }))
  return batch.tasks.docs?.id ?? ''
}

async function settled(server: Server, id: string, status: string) {
  const params = { path: { id } }
  const until = Date.now() + 60_000
  // The stream tells each change; the first look may come after the last of them.
  const stream = await fetch(`${server.url}/api/v1/stream?entity_ids=${id}`, {
    headers: { authorization: `Bearer ${server.token}`, accept: 'text/event-stream' },
  })
  const reader = stream.body?.getReader()
  try {
    while (answer(await server.api.GET('/api/v1/tasks/{id}', { params })).status !== status) {
      if (Date.now() > until) throw new Error(`task ${id} does not become ${status}`)
      await reader?.read()
    }
  } finally {
    await reader?.cancel()
  }
}
