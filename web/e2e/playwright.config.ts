// How the pages are tried in a real browser against a real server. `scripts/browser` says which ones.

import { defineConfig } from '@playwright/test'

const { CHROMIUM, CI } = process.env
if (!CHROMIUM || !process.env.OMOI) throw new Error('run scripts/browser, which finds the browser and the server')
const out = process.env.OMOI_BROWSER_OUT ?? '../../target/browser'

export default defineConfig({
  testDir: '.',
  outputDir: `${out}/results`,
  forbidOnly: CI !== undefined,
  fullyParallel: true,
  workers: 2,
  // A journey waits for what it expects to see; this only ends one that will never see it.
  timeout: 90_000,
  expect: { timeout: 30_000 },
  reporter: [['list']],
  use: {
    viewport: { width: 1440, height: 900 },
    colorScheme: 'dark',
    contextOptions: { reducedMotion: 'reduce' },
    // A trace costs as much as the test; `--trace on` records one.
    screenshot: 'only-on-failure',
    launchOptions: {
      executablePath: CHROMIUM,
      // Root has no browser sandbox; and the browser is to ask nobody but the server for anything.
      chromiumSandbox: process.getuid?.() !== 0,
      args: ['--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'],
    },
  },
  projects: [
    { name: 'journeys', testMatch: '*.spec.ts' },
    { name: 'screenshots', testMatch: 'screenshots.ts' },
    // One at a time, or they would measure each other.
    { name: 'budgets', testMatch: 'budgets.ts', fullyParallel: false, timeout: 300_000 },
  ],
})
