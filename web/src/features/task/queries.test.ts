import { expect, test, vi } from 'vitest'
import { taskStart } from './queries'

const TASK = { id: 'task-1', project_id: 'prj-1' }
const refused = (code: string) => Response.json({ status: 409, title: '', code, detail: code }, { status: 409 })

function serve(order: Response, task: object = {}) {
  const asked: [string, unknown][] = []
  vi.stubGlobal('fetch', async (request: Request) => {
    const isOrder = request.method === 'POST'
    asked.push([new URL(request.url).pathname, isOrder ? await request.json() : undefined])
    return isOrder ? order : Response.json(task)
  })
  return asked
}

test('starting a task orders a sandbox for it', async () => {
  const asked = serve(Response.json({ id: 'sbx-1' }, { status: 202 }))
  expect(await taskStart(TASK, 'trunk')).toBe('sbx-1')
  expect(asked).toEqual([['/api/v1/projects/prj-1/sandboxes', { task_id: 'task-1', base: 'trunk' }]])
})

test('a task that somebody was quicker to take leads to the sandbox that holds it', async () => {
  serve(refused('task_held'), { ...TASK, sandbox_id: 'sbx-other' })
  expect(await taskStart(TASK)).toBe('sbx-other')
})

test('any other refusal is told', async () => {
  const asked = serve(refused('repository_missing'))
  await expect(taskStart(TASK)).rejects.toMatchObject({ code: 'repository_missing' })
  expect(asked).toHaveLength(1)
  serve(refused('task_held'), { ...TASK, sandbox_id: null })
  await expect(taskStart(TASK)).rejects.toMatchObject({ code: 'task_held' })
})
