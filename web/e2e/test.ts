// What every test in the browser starts from: a server, somebody who is signed in, and a watch on everything that must not happen.

import { test as base, expect, type BrowserContext, type Page } from '@playwright/test'
import { furnish, type Furnished } from './furnish'
import { Server } from './server'

export { expect, type Page }

/** What has gone wrong in the browser without a test asking. */
export class Watch {
  readonly found: string[] = []
  readonly #expected: RegExp[] = []

  /** Lets pass what the test brings about itself. */
  expect(...patterns: RegExp[]) {
    this.#expected.push(...patterns)
  }

  note(words: string) {
    this.found.push(words)
  }

  get unexpected(): string[] {
    return this.found.filter((words) => !this.#expected.some((pattern) => pattern.test(words)))
  }
}

type Fixtures = { watch: Watch; signedIn: Page }
type WorkerFixtures = { server: Server; furnished: Furnished }

export const test = base.extend<Fixtures, WorkerFixtures>({
  server: [
    // oxlint-disable-next-line no-empty-pattern -- Playwright reads from it what a fixture needs
    async ({}, give) => {
      const server = await Server.start()
      await give(server)
      await server.end()
    },
    { scope: 'worker', timeout: 60_000 },
  ],

  /** The server with some of everything. */
  furnished: [async ({ server }, give) => give(await furnish(server)), { scope: 'worker', timeout: 120_000 }],

  baseURL: async ({ server }, give) => give(server.url),

  watch: [
    async ({ context, server }, give, info) => {
      const watch = new Watch()
      await look(context, server.url, watch)
      await give(watch)
      if (info.status !== info.expectedStatus) await info.attach('server', { body: server.lastWords() })
      expect(watch.unexpected, 'errors, violations of the policy, and requests to elsewhere').toEqual([])
    },
    { auto: true },
  ],

  /** A page of somebody who is signed in already. */
  signedIn: async ({ context, page, server }, give) => {
    await signIn(context, server)
    await give(page)
  },
})

/** As the sign-in page does it, without the page. */
export async function signIn(context: BrowserContext, server: Server) {
  const response = await context.request.post(`${server.url}/api/v1/session`, {
    data: { token: server.token },
    headers: { 'X-Omoi-Csrf': '1' },
  })
  expect(response.ok(), await response.text()).toBe(true)
}

/** Waits until a page shows what it has, and no longer what stands in for it. */
export async function settle(page: Page) {
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
  await expect(page.getByRole('status', { name: /^Loading/ })).toHaveCount(0)
}

/** The number of the newest event that the page of a sandbox knows. */
export async function lastSeq(page: Page): Promise<number> {
  const words = await page.getByRole('group', { name: 'Replay' }).innerText()
  return Number(/\d+\/(\d+)/.exec(words)?.[1])
}

async function look(context: BrowserContext, url: string, watch: Watch) {
  context.on('console', (message) => {
    if (message.type() === 'error') watch.note(`console: ${message.text()} (${message.location().url})`)
  })
  context.on('weberror', (error) => watch.note(`page: ${error.error().message}`))
  context.on('request', (request) => {
    if (!request.url().startsWith(`${url}/`) && !request.url().startsWith('data:')) watch.note(`request: ${request.url()}`)
  })
  context.on('dialog', (dialog) => {
    watch.note(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  await context.exposeBinding('reportViolation', (_, words: string) => watch.note(`policy: ${words}`))
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
      ;(globalThis as unknown as { reportViolation: (words: string) => void }).reportViolation(`${violatedDirective} ${blockedURI}`)
    })
  })
}
