// How long the pages take, printed beside what they should. The machine decides these figures as much as the pages do, so no test fails on them.

import type { CDPSession } from '@playwright/test'
import { edit, work } from './flood'
import type { Server } from './server'
import { expect, lastSeq, signIn, test, type Page } from './test'

const KNOWN = 10_000
const BATCH = 1_000
const PER_SECOND = 200
/** As the machine is, and as one that is slower: a quick machine hides what would be felt elsewhere. */
const PACES = [
  { times: 1, seconds: 20 },
  { times: 4, seconds: 10 },
]
const SCROLL_PX_PER_S = 20_000
const DIFF_LINES = 5_000

test('first paint of the first page, with an empty cache', async ({ page, context, server, furnished }) => {
  await signIn(context, server)
  await page.goto('/')
  const painted = await page.evaluate(() => {
    return new Promise<number>((resolve) => {
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) if (entry.name === 'first-contentful-paint') resolve(entry.startTime)
      }).observe({ type: 'paint', buffered: true })
    })
  })
  print('first paint, home, empty cache', `${painted.toFixed(0)} ms`, '600 ms')
  await page.goto('about:blank')
  const began = Date.now()
  await page.goto(`/sandboxes/${furnished.done}`)
  await expect(page.getByText(/^C\(50,25\) = 126410606437752/).first()).toBeVisible()
  print('live page, from its address to the newest event', `${Date.now() - began} ms`, '1200 ms')
})

test('the live page while events stream in, and scrolling through them', async ({ signedIn: page, server }) => {
  const { id, sent, report } = await known(page, server)
  const cdp = await page.context().newCDPSession(page)
  let next = sent
  for (const { times, seconds } of PACES) {
    await cdp.send('Emulation.setCPUThrottlingRate', { rate: times })
    const busy = await busySeconds(cdp)
    expect(await page.evaluate(watchFrames)).toBe(true)
    const from = Date.now()
    for (let fifth = 0; fifth < seconds * 5; fifth++) {
      const began = Date.now()
      await report(work(next, PER_SECOND / 5))
      next += PER_SECOND / 5
      // The pace of the agent that is played: a fifth of a second for each batch.
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, 200 - (Date.now() - began))))
    }
    await expect.poll(() => lastSeq(page)).toBe(next)
    const streamed = await page.evaluate(readFrames)
    const share = (100_000 * (await busy())) / (Date.now() - from)
    const slower = times === 1 ? '' : `, ${times} times slower`
    print(`${PER_SECOND} events/s over ${seconds} s into ${KNOWN}${slower}: frames, 95th percentile`, `${streamed.p95.toFixed(1)} ms`, '17 ms')
    print('… main thread busy', `${share.toFixed(1)} %`, '40 %')
    print('… frames over 34 ms', `${streamed.slow} of ${streamed.frames}`, '')
    print('… long tasks', `${streamed.longTasks}, ${streamed.longMs.toFixed(0)} ms together`, '')
  }
  await cdp.send('Emulation.setCPUThrottlingRate', { rate: 1 })

  await page.evaluate(watchFrames)
  await page.getByRole('log', { name: 'Events' }).evaluate(scroll, SCROLL_PX_PER_S)
  const scrolled = await page.evaluate(readFrames)
  const slow = (100 * scrolled.slow) / scrolled.frames
  print(`scrolling at ${SCROLL_PX_PER_S} px/s: frames over 34 ms`, `${slow.toFixed(1)} % of ${scrolled.frames}`, '1 %')
  print('… 95th percentile', `${scrolled.p95.toFixed(1)} ms`, '')
  print('… elements in the document', String(await page.evaluate(() => document.querySelectorAll('*').length)), '1500')

  await cdp.send('HeapProfiler.collectGarbage')
  const { usedSize } = await cdp.send('Runtime.getHeapUsage')
  print(`memory for ${next} events, after collection`, `${(usedSize / 2 ** 20).toFixed(1)} MiB`, '40 MB')
  expect(id).not.toBe('')
})

test('a long diff', async ({ signedIn: page, server }) => {
  const { id, report } = await server.external('diff')
  await report([{ event_type: 'agent.file_edited', event_data: edit('src/long.ts', DIFF_LINES), worker_seq: 1 }])
  await report([{ event_type: 'agent.file_edited', event_data: edit('src/short.ts', 4), worker_seq: 2 }])
  // Once, so that it is fetched: what is measured is the opening.
  await page.goto(`/sandboxes/${id}?tab=files&file=src/long.ts`)
  const diff = page.getByRole('region', { name: 'Diff' })
  await expect(diff.getByText('const before0 = 0')).toBeVisible()
  const files = page.getByRole('list', { name: 'Changed files' })
  await files.getByText('src/short.ts').click()
  await expect(diff.getByText('const before9 = 9')).toHaveCount(0)
  const ms = await files.getByText('src/long.ts').evaluate(async (button: HTMLElement) => {
    const began = performance.now()
    button.click()
    while (!document.querySelector('[aria-label="Diff"]')?.textContent?.includes('before9')) await new Promise(requestAnimationFrame)
    return performance.now() - began
  })
  print(`a diff of ${DIFF_LINES} lines: open`, `${ms.toFixed(0)} ms`, '50 ms')
})

/** A page that has followed so many events already. */
async function known(page: Page, server: Server) {
  const { id, report } = await server.external('stream')
  await report(work(0, 10))
  await page.goto(`/sandboxes/${id}`)
  await expect(page.getByText('Live', { exact: true })).toBeVisible()
  for (let sent = 10; sent < KNOWN; sent += BATCH) await report(work(sent, Math.min(BATCH, KNOWN - sent)))
  await expect.poll(() => lastSeq(page)).toBe(KNOWN)
  return { id, sent: KNOWN, report }
}

/** How long the page's main thread has worked since, whatever else the machine had to do meanwhile. */
async function busySeconds(cdp: CDPSession): Promise<() => Promise<number>> {
  await cdp.send('Performance.enable', { timeDomain: 'threadTicks' })
  const read = async () => {
    const { metrics } = await cdp.send('Performance.getMetrics')
    return metrics.find(({ name }) => name === 'TaskDuration')?.value ?? Number.NaN
  }
  const before = await read()
  return async () => (await read()) - before
}

type Frames = { times: number[]; long: number[]; isOn: boolean }

/** Runs in the page: notes every frame and every long task from now on. */
function watchFrames(): boolean {
  const frames: Frames = { times: [], long: [], isOn: true }
  ;(globalThis as unknown as { frames: Frames }).frames = frames
  const tick = (at: number) => {
    frames.times.push(at)
    if (frames.isOn) requestAnimationFrame(tick)
  }
  requestAnimationFrame(tick)
  new PerformanceObserver((list) => frames.long.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: 'longtask' })
  return true
}

/** Runs in the page: what was noted. */
function readFrames() {
  const { frames } = globalThis as unknown as { frames: Frames }
  frames.isOn = false
  const gaps = frames.times.slice(1).map((at, index) => at - (frames.times[index] ?? at))
  const sorted = gaps.toSorted((a, b) => a - b)
  return {
    frames: gaps.length,
    p95: sorted[Math.floor(sorted.length * 0.95)] ?? 0,
    slow: gaps.filter((gap) => gap > 34).length,
    longTasks: frames.long.length,
    longMs: frames.long.reduce((sum, one) => sum + one, 0),
  }
}

/** Runs in the page: scrolls up for five seconds. */
async function scroll(list: Element, pxPerSecond: number) {
  list.dispatchEvent(new WheelEvent('wheel', { deltaY: -1, bubbles: true }))
  const began = performance.now()
  const from = list.scrollTop
  for (let at = began; at - began < 5_000; at = await new Promise<number>(requestAnimationFrame)) {
    list.scrollTop = from - ((at - began) / 1000) * pxPerSecond
  }
}

function print(what: string, found: string, aim: string) {
  process.stdout.write(`${what.padEnd(78)} ${found.padStart(28)} ${aim && `(aim ${aim})`}\n`)
}
