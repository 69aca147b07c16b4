import { edit, work } from './flood'
import { expect, lastSeq, test, type Page } from './test'

const BATCH = 40

test('the end is followed while events come, and what is read stays where it is', async ({ signedIn: page, server }) => {
  const { id, report } = await server.external('follow')
  await report(work(0, 100))
  await page.goto(`/sandboxes/${id}`)
  const log = page.getByRole('log', { name: 'Events' })
  await expect(log.getByText('src/part-99.ts')).toBeVisible()

  for (let sent = 100; sent < 500; sent += BATCH) await report(work(sent, BATCH))
  await expect.poll(() => lastSeq(page)).toBe(500)
  await expect.poll(() => around(page)).toEqual({ isFilled: true, fromEnd: 0, last: 300, inOrder: true })

  // Cards that are lower than anybody would guess fill the view too.
  await report(Array.from({ length: BATCH }, (_, n) => ({ event_type: 'agent.file_edited', event_data: edit(`low-${n}.ts`, 0), worker_seq: 501 + n })))
  await expect(log.getByText(`low-${BATCH - 1}.ts`)).toBeVisible()
  await expect.poll(() => around(page)).toEqual({ isFilled: true, fromEnd: 0, last: 300 + BATCH, inOrder: true })

  await log.hover()
  await page.mouse.wheel(0, -1_500)
  await expect(page.getByRole('button', { name: 'Latest' })).toBeVisible()
  // The wheel has come to rest.
  let read = await inSight(page)
  await expect.poll(async () => JSON.stringify(read) === JSON.stringify((read = await inSight(page))), { intervals: [300] }).toBe(true)
  for (let sent = 540; sent < 940; sent += BATCH) await report(work(sent, BATCH))
  await expect.poll(() => lastSeq(page)).toBe(940)
  expect(await inSight(page)).toEqual(read)

  await page.getByRole('button', { name: '400 new' }).click()
  await expect.poll(() => around(page)).toEqual({ isFilled: true, fromEnd: 0, last: 300 + BATCH + 240, inOrder: true })

  // Ten rows up by keys: the chosen one is in sight, and the next one down is the one below it.
  for (let n = 0; n < 10; n++) await page.keyboard.press('k')
  const chosen = log.locator('[aria-current="true"]')
  await expect(chosen).toBeInViewport()
  const seq = Number(new URL(page.url()).searchParams.get('event'))
  await page.keyboard.press('j')
  await expect.poll(() => Number(new URL(page.url()).searchParams.get('event'))).toBeGreaterThan(seq)
  await expect(chosen).toBeInViewport()
})

/** How the rows stand that are in the page. */
function around(page: Page) {
  return page.getByRole('log', { name: 'Events' }).evaluate((log) => {
    const places = [...log.querySelectorAll('li[data-index]')].map((row) => Number(row.getAttribute('aria-posinset')))
    const rows = log.querySelector('ol')?.getBoundingClientRect()
    return {
      isFilled: (rows?.top ?? Infinity) <= log.getBoundingClientRect().top,
      fromEnd: Math.round(log.scrollHeight - log.scrollTop - log.clientHeight),
      last: places.at(-1),
      inOrder: places.every((place, n) => n === 0 || place === (places[n - 1] ?? 0) + 1),
    }
  })
}

/** The first row that begins in sight, and where. */
function inSight(page: Page) {
  return page.getByRole('log', { name: 'Events' }).evaluate((log) => {
    const { top } = log.getBoundingClientRect()
    const row = [...log.querySelectorAll('li[data-index]')].find((one) => one.getBoundingClientRect().top >= top)
    return { words: row?.textContent, px: Math.round((row?.getBoundingClientRect().top ?? 0) - top) }
  })
}
