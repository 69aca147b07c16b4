import { answer } from './server'
import { expect, test } from './test'

test('a spec is put away, brought back by Undo, and found among those that are archived', async ({ signedIn: page, server }) => {
  const project = await server.project('away')
  const idea = { project_id: project.id, title: 'Gift vouchers', description: 'Customers pay with vouchers.' }
  answer(await server.api.POST('/api/v1/specs', { body: idea as never }))
  await page.goto(`/specs?project=${project.id}`)
  const spec = page.getByRole('link', { name: 'Gift vouchers' })
  const choose = async (action: string) => {
    await page.getByRole('button', { name: 'Actions for Gift vouchers' }).click()
    await page.getByRole('menuitem', { name: action }).click()
  }
  await choose('Archive')
  await expect(spec).toHaveCount(0)
  await page.getByRole('button', { name: 'Undo' }).click()
  await expect(spec).toBeVisible()
  await choose('Archive')
  await expect(spec).toHaveCount(0)

  await page.getByRole('checkbox', { name: 'Archived' }).check()
  await spec.click()
  await expect(page.getByText('It is archived')).toBeVisible()
  await page.getByRole('button', { name: 'Bring back' }).click()
  await expect(page.getByText('It is archived')).toHaveCount(0)
})

test('the gates of a project count for a new spec, until the spec says them itself', async ({ signedIn: page, server }) => {
  const project = await server.project('gates')
  await page.goto(`/projects/${project.id}`)
  await page.getByRole('radio', { name: 'At the phases chosen here' }).check()
  await page.getByRole('checkbox', { name: 'Requirements' }).uncheck()
  await page.getByRole('checkbox', { name: 'Tasks' }).check()
  await page.getByRole('button', { name: 'Save the gates' }).click()
  await expect(page.getByRole('button', { name: 'Save the gates' })).toBeDisabled()
  await expect(page.getByText('Somebody has changed this project since.')).toHaveCount(0)

  await page.goto(`/specs/new?project=${project.id}`)
  await expect(page.getByText('As the project says: Design and Tasks')).toBeVisible()
  await page.getByRole('textbox', { name: 'Title' }).first().fill('Vouchers')
  await page.getByRole('button', { name: 'Write it down' }).click()
  const gates = page.getByRole('region', { name: 'Waits for a person at' })
  await expect(gates.getByText('Design and Tasks')).toBeVisible()
  await gates.getByRole('button', { name: 'Choose' }).click()
  await gates.getByRole('checkbox', { name: 'Design' }).uncheck()
  await gates.getByRole('button', { name: 'Save' }).click()
  await expect(gates.getByText('Tasks', { exact: true })).toBeVisible()
})

test('a task whose predecessors conflict says so wherever it is shown', async ({ signedIn: page, server }) => {
  const project = await server.project('conflict')
  const config = { autonomous: true, model: 'scripted/titles' }
  const tasks = [
    ['one', []],
    ['two', []],
    ['both', ['one', 'two']],
    ['after', ['both']],
  ].map(([key, depends_on]) => ({ key, title: `Make ${String(key)}`, depends_on, execution_config: config }))
  const made = answer(await server.api.POST('/api/v1/tasks/batch', { body: { project_id: project.id, tasks } as never }))
  const [both, after] = [made.tasks.both?.id ?? '', made.tasks.after?.id ?? '']

  await page.goto(`/tasks/${both}`)
  const pair = page.getByRole('list', { name: 'Tasks that conflict' })
  await expect(pair.getByRole('link', { name: 'Make one' })).toBeVisible()
  await expect(pair.getByRole('link', { name: 'Make two' })).toBeVisible()
  await expect(page.getByText('made.txt', { exact: true })).toBeVisible()

  await page.goto(`/tasks/${after}`)
  await expect(page.getByText('cannot begin: what it builds on conflicts in made.txt.')).toBeVisible()

  await page.goto(`/board?project=${project.id}`)
  await expect(page.getByText(/^cannot begin: Make (one|two) and Make (one|two), which it builds on, conflict in made.txt$/)).toBeVisible()
  await expect(page.getByText('blocked by Make both, whose predecessors conflict (made.txt)')).toBeVisible()

  await page.goto(`/graph?id=${project.id}`)
  await expect(page.getByText('One task cannot begin: what it builds on does not go together')).toBeVisible()
  await expect(page.getByRole('button', { name: /Make both.*predecessors conflict/ })).toBeVisible()
})
