import { edit, work } from './flood'
import { expect, lastSeq, test, type Page } from './test'

const EVENTS = 10_000
const BATCH = 1_000
const DIFF_LINES = 5_000
const ELEMENTS_MAX = 1_500

test('ten thousand events and a diff of five thousand lines take few elements', async ({ signedIn: page, server }) => {
  const { id, report } = await server.external('size')
  await report(work(0, 10))
  await page.goto(`/sandboxes/${id}`)
  await expect(page.getByText('Live', { exact: true })).toBeVisible()
  for (let sent = 10; sent < EVENTS; sent += BATCH) await report(work(sent, Math.min(BATCH, EVENTS - sent)))
  await expect.poll(() => lastSeq(page)).toBe(EVENTS)
  const log = page.getByRole('log', { name: 'Events' })
  await expect(log.getByText(`Step ${EVENTS - 5}`)).toBeVisible()
  expect(await elements(page)).toBeLessThanOrEqual(ELEMENTS_MAX)

  // All of them are still there, from the first on.
  await log.press('Home')
  await expect(log.getByText('Step 0:')).toBeVisible()
  await log.press('End')
  await expect(log.getByText(`Step ${EVENTS - 5}`)).toBeVisible()

  await report([{ event_type: 'agent.file_edited', event_data: edit('src/long.ts', DIFF_LINES), worker_seq: EVENTS + 1 }])
  const card = page.getByRole('article').filter({ hasText: 'src/long.ts' })
  await card.getByRole('button', { name: 'Open diff' }).click()
  const diff = page.getByRole('region', { name: 'Diff' })
  await expect(diff.getByText('const before0 = 0')).toBeVisible()
  await diff.press('End')
  await expect(diff.getByText(`const after${DIFF_LINES / 2 - 1} =`)).toBeVisible()
  expect(await elements(page)).toBeLessThanOrEqual(ELEMENTS_MAX)
})

function elements(page: Page): Promise<number> {
  return page.evaluate(() => document.querySelectorAll('*').length)
}
