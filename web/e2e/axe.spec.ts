import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { AxeBuilder } from '@axe-core/playwright'
import { NOTHING, ROUTES, THEMES, WIDTHS, type Route } from './routes'
import { Server } from './server'
import { expect, settle, signIn, test, type Page } from './test'

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
/** What a theme can change; all else is looked at in the first one. */
const COLOURS = ['color-contrast', 'link-in-text-block']
const HEIGHT = 900
/** One for each page of the router: without data their variants are alike. */
const PAGES = ROUTES.filter(({ route, isPublic }, index) => !isPublic && ROUTES.findIndex((one) => one.route === route) === index)

test('every route of the router is looked at', () => {
  const source = readFileSync(join(import.meta.dirname, '../src/app/router.tsx'), 'utf8')
  const routes = [...source.matchAll(/\bpath: '([^']+)'/g)].map(([, path]) => path ?? '')
  expect(routes).not.toEqual([])
  expect(routes.filter((path) => !ROUTES.some(({ route }) => route === path)), 'to be added to e2e/routes.ts').toEqual([])
})

for (const route of ROUTES) {
  test(`${route.name} with data is accessible`, async ({ page, context, server, furnished, watch }) => {
    if (route.isPublic) watch.expect(/401.*\/api\/v1\/session\)/)
    else await signIn(context, server)
    await page.goto(route.path(furnished))
    await look(page, route)
  })
}

test('pages with nothing to show are accessible', async ({ page, context, watch }) => {
  test.setTimeout(180_000)
  const server = await Server.start()
  try {
    // Unknown ids are refused, and another server is asked.
    watch.expect(/status of (401|404|422)/, /^request: /)
    await signIn(context, server)
    for (const route of PAGES) {
      await page.goto(server.url + route.path(NOTHING))
      await look(page, route)
    }
  } finally {
    await server.end()
  }
})

test('pages that cannot have what they show are accessible', async ({ signedIn: page, furnished, watch }) => {
  test.setTimeout(180_000)
  watch.expect(/status of 503/)
  const problem = { type: 'about:blank', title: 'Service Unavailable', status: 503, code: 'store_busy', detail: 'the store is busy' }
  await page.route(/\/api\/v1\/(?!session)/, (call) => call.fulfill({ status: 503, contentType: 'application/problem+json', body: JSON.stringify(problem) }))
  for (const route of PAGES) {
    await page.goto(route.path(furnished))
    await look(page, route)
  }
})

/** At both widths, in both themes. */
async function look(page: Page, { name }: Route) {
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: HEIGHT })
    await settle(page)
    for (const theme of THEMES) {
      const fading = await page.evaluate((wanted) => {
        document.documentElement.dataset.theme = wanted
        return document.getAnimations().filter((animation) => animation instanceof CSSTransition).length
      }, theme)
      // Colours between two themes have no contrast to speak of, and somebody asked for no motion.
      expect(fading, `${name}: transitions under reduced motion`).toBe(0)
      const axe = new AxeBuilder({ page }).setLegacyMode().options({ resultTypes: ['violations'] })
      const { violations } = await (theme === THEMES[0] ? axe.withTags(TAGS) : axe.withRules(COLOURS)).analyze()
      const words = violations.flatMap(({ id, help, nodes }) => nodes.map((node) => `${id}: ${help}: ${node.html} ${node.failureSummary}`))
      expect.soft(words, `${name}, ${width} px, ${theme}`).toEqual([])
    }
  }
}
