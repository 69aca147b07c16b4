import { expect, test, vi } from 'vitest'
import { taskRelease, taskStart } from './queries'

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

test('a task that was held back is given to its project again, with all else it was told', async () => {
  let sent: unknown
  vi.stubGlobal('fetch', async (request: Request) => {
    sent = [request.method, new URL(request.url).pathname, await request.json()]
    return Response.json({})
  })
  await taskRelease({ id: 'task-1', execution_config: { autonomous: false, model: 'm' } })
  expect(sent).toEqual(['PATCH', '/api/v1/tasks/task-1', { execution_config: { model: 'm' } }])
})
