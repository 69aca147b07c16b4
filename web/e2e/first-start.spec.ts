import { expect, test } from './test'

test('from the first start to a finished run', async ({ page, server, watch }) => {
  // Nobody is signed in yet, and the browser says so.
  watch.expect(/401.*\/api\/v1\/session\)/)
  // The server starts tasks of such a project by itself, and may be quicker than the page that asks for it.
  watch.expect(/409.*\/sandboxes\)/)
  await page.goto('/')
  await page.getByLabel('Operator token').fill(server.token)
  await page.getByRole('button', { name: 'Sign in' }).click()

  await page.getByRole('navigation').getByRole('link', { name: 'Projects' }).click()
  await page.getByRole('main').getByRole('link', { name: /^Add a/ }).first().click()
  await page.getByLabel('Name').fill('Numbers')
  await page.getByLabel('Repository').fill(server.repository('numbers'))
  await page.getByRole('button', { name: 'Add the project' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'Numbers' })).toBeVisible()

  await page.getByRole('link', { name: 'New task' }).first().click()
  await page.getByLabel('Project').selectOption({ label: 'Numbers' })
  await page.getByLabel('What to do').fill('Compute C(50,25)')
  await page.getByLabel('Model').fill('scripted/binomial')
  await page.getByRole('button', { name: 'Start in Numbers' }).click()

  await expect(page.getByRole('heading', { level: 1, name: 'Compute C(50,25)' })).toBeVisible()
  await expect(page.getByText('Live', { exact: true })).toBeVisible()
  await expect(page.getByText('Completed, unverified: no check was declared')).toBeVisible()
  await expect(page).toHaveTitle(/^completed · Compute C\(50,25\)/)
  const events = page.getByRole('log', { name: 'Events' })
  await expect(events.getByText('C(50,25) = 126410606437752').first()).toBeVisible()

  await page.getByRole('tab', { name: 'Files 1' }).click()
  await expect(page.getByRole('list', { name: 'Changed files' }).getByText('binomial.py')).toBeVisible()
  const diff = page.getByRole('region', { name: 'Diff' })
  const edit = page.getByRole('combobox', { name: 'Edit', exact: true })
  const choose = async (words: string) => edit.selectOption(await edit.locator('option', { hasText: words }).getAttribute('value'))

  await choose('1 of 2')
  await expect(diff.locator('.diff-added')).toHaveCount(11)
  await expect(diff.locator('.diff-removed')).toHaveCount(0)
  await choose('2 of 2')
  await expect(diff.locator('.diff-removed')).toHaveText([/if k == 0 or k == n:/, /return 1/, /return binomial\(n - 1, k - 1\)/])
  await expect(diff.locator('.diff-added')).toHaveText([/result = 1/, /for i in range/, /result = result \*/, /return result/])
})
