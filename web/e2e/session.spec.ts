import { expect, test } from './test'

test('signing in, wrongly and rightly, and out again', async ({ page, server, watch }) => {
  watch.expect(/401.*\/api\/v1\/session\)/)
  await page.goto('/sandboxes/new?project=prj-1')
  await expect(page).toHaveURL(/\/login\?next=/)
  const token = page.getByLabel('Operator token')
  await token.fill('omoi_op_wrong')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await expect(page.getByRole('alert')).toContainText('does not know this token')

  await token.fill(server.token)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await expect(page).toHaveURL(/\/sandboxes\/new\?project=prj-1$/)
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('New task')
  // Neither in an address nor where a script could find it.
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]))
  expect(kept).not.toContain(server.token)

  await page.getByRole('button', { name: 'Sign out' }).click()
  await expect(page.getByRole('heading', { name: 'Sign in to Omoi' })).toBeVisible()
  await page.goto('/sandboxes')
  await expect(page).toHaveURL(/\/login/)
})

test('the sign-in leads to no other site', async ({ page, server, watch }) => {
  // Also of what the page asks for while the cookie is taken away.
  watch.expect(/status of 401/)
  for (const next of ['https://evil.example/', '//evil.example/', '/\\evil.example/', 'javascript:alert(1)']) {
    await page.context().clearCookies()
    await page.goto(`/login?next=${encodeURIComponent(next)}`)
    await page.getByLabel('Operator token').fill(server.token)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await expect(page).toHaveURL(`${server.url}/`)
  }
})

test('a theme that is chosen is there before the next page is painted', async ({ signedIn: page }) => {
  await page.goto('/projects')
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark')
  await page.getByRole('button', { name: 'Light theme' }).click()
  await page.goto('/sandboxes', { waitUntil: 'commit' })
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'light')
})
