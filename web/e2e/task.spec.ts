import { FAILING } from './server'
import { expect, test } from './test'

test('a task is cancelled, and started again', async ({ signedIn: page, server }) => {
  const project = await server.project('cancel')
  const { task, sandbox } = await server.play(project.id, 'gate')
  await page.goto(`/tasks/${task}`)
  await expect(page.getByRole('link', { name: 'Watch it work' })).toBeVisible()
  await page.getByRole('button', { name: 'Cancel', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the task' }).click()
  await expect(page.getByText('Why it was cancelled')).toBeVisible()

  await page.getByRole('button', { name: 'Retry' }).click()
  await expect(page).toHaveURL(/\/sandboxes\/sbx-/)
  expect(page.url()).not.toContain(sandbox)
  await expect(page.getByRole('log', { name: 'Events' }).getByText('running', { exact: true })).toBeVisible()

  await page.goto(`/tasks/${task}`)
  const attempts = page.getByRole('table').filter({ hasText: 'Why it ended' }).getByRole('row')
  await expect(attempts).toHaveCount(3)
  await page.getByRole('button', { name: 'Cancel', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the task' }).click()
  await expect(page.getByText('Why it was cancelled')).toBeVisible()
})

test('a task that failed says why, and is tried again', async ({ signedIn: page, server, watch }) => {
  // The server starts it by itself as well, and may be quicker than the page.
  watch.expect(/409.*\/sandboxes\)/)
  const project = await server.project('retry')
  const { task, sandbox } = await server.play(project.id, 'boast', FAILING)
  await page.goto(`/tasks/${task}`)
  await expect(page.getByText('Why it failed')).toBeVisible()
  await expect(page.getByText('Declared checks did not pass.')).toBeVisible()

  await page.getByRole('button', { name: 'Retry' }).click()
  await expect(page).toHaveURL(/\/sandboxes\/sbx-/)
  expect(page.url()).not.toContain(sandbox)
  await page.goto(`/tasks/${task}`)
  await expect(page.getByText('Why it failed')).toBeVisible()
  await expect(page.getByRole('table').filter({ hasText: 'Why it ended' }).getByRole('row')).toHaveCount(5)
})
