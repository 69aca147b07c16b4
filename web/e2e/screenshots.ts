// Every page as a person sees it, for a person to look at.

import { join } from 'node:path'
import { NOTHING, ROUTES, THEMES, WIDTHS } from './routes'
import { Server } from './server'
import { settle, signIn, test, type Page } from './test'

const DIR = process.env.OMOI_SCREENSHOTS ?? '../target/screenshots'
const HEIGHTS = { 1440: 900, 390: 844 } as const

for (const { name, path, isPublic } of ROUTES) {
  test(name, async ({ page, context, server, furnished, watch }) => {
    watch.expect(/401/)
    if (!isPublic) await signIn(context, server)
    await take(page, server.url + path(furnished), name)
  })
}

test('empty', async ({ page, context, watch }) => {
  test.setTimeout(300_000)
  const server = await Server.start()
  try {
    watch.expect(/status of (404|422)/, /^request: /)
    await signIn(context, server)
    for (const { name, path } of ROUTES.filter((route) => !route.isPublic)) {
      await take(page, server.url + path(NOTHING), `empty-${name}`)
    }
  } finally {
    await server.end()
  }
})

async function take(page: Page, url: string, name: string) {
  for (const theme of THEMES) {
    await page.emulateMedia({ colorScheme: theme })
    await page.goto(url)
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: HEIGHTS[width] })
      await settle(page)
      await page.screenshot({ path: join(DIR, `${name}-${width}-${theme}.png`) })
    }
  }
}
