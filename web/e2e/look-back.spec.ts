import { expect, test } from './test'

test('a diff is opened from its card, and its address shows it again', async ({ signedIn: page, server }) => {
  const project = await server.project('diff')
  const { sandbox } = await server.play(project.id, 'binomial')
  await page.goto(`/sandboxes/${sandbox}`)
  await expect(page.getByText(/^Completed, unverified/).first()).toBeVisible()
  await page.getByRole('button', { name: 'Files', exact: true }).click()
  const edits = page.getByRole('log', { name: 'Events' }).getByRole('article')
  await expect(edits).toHaveCount(2)
  await edits.last().getByRole('button', { name: 'Open diff' }).click()

  const diff = page.getByRole('region', { name: 'Diff' })
  await expect(diff.locator('.diff-removed')).toHaveCount(3)
  await expect(diff.locator('.diff-added')).toHaveCount(4)
  await expect(page).toHaveURL(/file=binomial\.py/)
  await page.reload()
  await expect(diff.locator('.diff-removed')).toHaveCount(3)
})

test('a finished run is gone through again, event by event', async ({ signedIn: page, server }) => {
  const project = await server.project('replay')
  const { sandbox } = await server.play(project.id, 'binomial')
  await page.goto(`/sandboxes/${sandbox}?tab=files`)
  await expect(page.getByText(/^Completed, unverified/).first()).toBeVisible()
  const events = await server.events(sandbox)
  const [first, second] = events.filter((event) => event.event_type === 'agent.file_edited')
  if (!first || !second) throw new Error('the run edits its file twice')

  const replay = page.getByRole('group', { name: 'Replay' })
  const diff = page.getByRole('region', { name: 'Diff' })
  const log = page.getByRole('log', { name: 'Events' })
  // Right before the first edit, at it, and at the second.
  await page.goto(`/sandboxes/${sandbox}?tab=files&at=${first.seq - 1}`)
  await expect(page.getByText('No file has changed yet.')).toBeVisible()
  await replay.getByRole('button', { name: 'One event on' }).click()
  await expect(page).toHaveURL(new RegExp(`at=${first.seq}\\b`))
  await expect(replay).toContainText(`· ${first.seq}/`)
  await expect(diff.locator('.diff-added')).toHaveCount(11)
  await expect(diff.locator('.diff-removed')).toHaveCount(0)
  await expect(log.getByText('C(50,25) = 126410606437752')).toHaveCount(0)
  await page.goto(`/sandboxes/${sandbox}?tab=files&at=${second.seq}&file=binomial.py&event=${second.seq}`)
  await expect(diff.locator('.diff-removed')).toHaveCount(3)
  await replay.getByRole('slider', { name: 'Moment' }).press('Home')
  // The first event, or one of the same moment.
  await expect(page).toHaveURL(/at=\d\b/)
  await expect(page.getByText('No file has changed yet.')).toBeVisible()

  await replay.getByRole('button', { name: 'Back to the end' }).click()
  await expect(page).not.toHaveURL(/at=/)
  await expect(log.getByText('C(50,25) = 126410606437752').first()).toBeVisible()
})
