import { expect, lastSeq, test, type Page } from './test'

/** Told within another event's card, or counted there. */
const WITHIN = ['agent.assistant_message', 'command.output', 'agent.heartbeat']

test('a page that loses its server says so, and catches up without a gap or a repeat', async ({ signedIn: page, server, watch }) => {
  watch.expect(/net::ERR_/)
  const project = await server.project('connection')
  const { sandbox } = await server.play(project.id, 'steering')
  await page.goto(`/sandboxes/${sandbox}`)
  const events = page.getByRole('log', { name: 'Events' })
  await expect(events.getByText('Step 2: nothing new was said')).toBeVisible()

  await server.kill()
  try {
    await expect(page.getByText(/^Not live: what is shown is as of/)).toBeVisible()
    await expect(events.getByText('Step 2: nothing new was said')).toBeVisible()
  } finally {
    await server.start()
  }
  await expect(page.getByText('Live', { exact: true })).toBeVisible()
  const known = (await server.events(sandbox)).length
  await expect.poll(() => lastSeq(page), { message: 'new events come' }).toBeGreaterThan(known)

  await page.getByLabel('To the agent').fill('That will do')
  await page.getByRole('button', { name: 'Send' }).click()
  await expect(page.getByText(/^Completed, unverified/).first()).toBeVisible()

  // The last word on a sandbox.
  await expect(events.getByText('Work kept')).toBeVisible()
  const stored = await server.events(sandbox)
  expect(stored.map((event) => event.seq)).toEqual(stored.map((_, index) => index + 1))
  await expect.poll(() => lastSeq(page)).toBe(stored.length)
  const shown = await shownEvents(page)
  expect(shown, 'nothing is shown twice').toEqual([...new Set(shown)])
  const wanted = stored.filter((event) => !WITHIN.includes(event.event_type)).map((event) => `${event.event_type} · ${event.seq}`)
  expect(wanted.filter((label) => !shown.includes(label)), 'nothing is missing').toEqual([])

  const output = stored.filter((event) => event.event_type === 'command.output').map((event) => String(event.event_data.text))
  // Tall enough for every line of it.
  await page.setViewportSize({ width: 1440, height: 4_000 })
  const steps = await page.getByRole('region', { name: /^Terminal/ }).getByText(/^step \d+$/).allTextContents()
  expect(steps).toEqual(output.join('').trim().split('\n'))
})

/** Goes through the list and opens the data of each card, one after the other: which events it was made of. */
async function shownEvents(page: Page): Promise<string[]> {
  return page.getByRole('log', { name: 'Events' }).evaluate(async (list) => {
    // oxlint-disable-next-line unicorn/consistent-function-scoping -- all of this runs in the page
    const frame = () => new Promise(requestAnimationFrame)
    const seen = new Set<string>()
    const labels: string[] = []
    list.scrollTop = 0
    for (;;) {
      await frame()
      const rows = [...list.querySelectorAll('li')]
      const row = rows.find(({ dataset }) => !seen.has(dataset.index ?? ''))
      if (!row && seen.size === Number(rows[0]?.ariaSetSize)) return labels
      if (!row) {
        list.scrollTop += list.clientHeight / 2
        continue
      }
      seen.add(row.dataset.index ?? '')
      const button = row.querySelector('[aria-label="Data"]')
      if (!(button instanceof HTMLElement)) continue
      const press = async (wanted: string) => {
        button.click()
        for (let waits = 0; button.ariaExpanded !== wanted && waits < 100; waits++) await frame()
      }
      await press('true')
      const told = [...row.querySelectorAll('span')].map((span) => span.textContent)
      labels.push(...told.filter((words) => /^[\w.]+ · \d+$/.test(words)))
      await press('false')
    }
  })
}
