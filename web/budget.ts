// Ends the build where the pages weigh more than they may, or where a compressed copy is not the file beside it.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliDecompressSync, gzipSync } from 'node:zlib'
import type { Plugin } from 'vite'

/** In bytes, scripts and styles as gzip leaves them. */
export const LIMITS = {
  /** What shows the shell and the first page. */
  start: 160_000,
  /** All of that and the page of a sandbox. */
  live: 230_000,
  /** Any other part that comes when it is needed. */
  later: 90_000,
  styles: 15_000,
  fonts: 95_000,
}
const LIVE = 'features/sandbox/SandboxPage.tsx'

export type Chunk = {
  fileName: string
  isEntry: boolean
  isDynamicEntry: boolean
  facadeModuleId: string | null
  /** Chunks without which this one does not run. */
  imports: string[]
}

export type Weight = { name: string; bytes: number; limit: number }

/** What is loaded together, how much that is, and how much it may be. */
export function weights(chunks: readonly Chunk[], others: readonly string[], bytesOf: (file: string) => number): Weight[] {
  const sum = (files: Iterable<string>) => [...files].reduce((total, file) => total + bytesOf(file), 0)
  const start = within(chunks, chunks.filter((chunk) => chunk.isEntry))
  const later = chunks.filter((chunk) => chunk.isDynamicEntry && !start.has(chunk.fileName))
  const live = later.find((chunk) => chunk.facadeModuleId?.endsWith(LIVE))
  return [
    { name: 'scripts of the first page', bytes: sum(start), limit: LIMITS.start },
    // Were it not found, nothing would be weighed.
    { name: 'scripts of the live page', bytes: live ? sum(within(chunks, [live], start)) : Number.POSITIVE_INFINITY, limit: LIMITS.live },
    ...later
      .filter((chunk) => chunk !== live)
      .map((chunk) => ({ name: chunk.fileName, bytes: sum(within(chunks, [chunk], start)) - sum(start), limit: LIMITS.later })),
    { name: 'styles', bytes: sum(others.filter((file) => file.endsWith('.css'))), limit: LIMITS.styles },
    { name: 'fonts', bytes: sum(others.filter((file) => file.endsWith('.woff2'))), limit: LIMITS.fonts },
  ]
}

/** These chunks and all that they import. */
function within(chunks: readonly Chunk[], from: readonly Chunk[], known: Iterable<string> = []): Set<string> {
  const found = new Set(known)
  const waiting = from.map((chunk) => chunk.fileName)
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (found.has(file)) continue
    found.add(file)
    waiting.push(...(chunks.find((chunk) => chunk.fileName === file)?.imports ?? []))
  }
  return found
}

/** The compressed copies that are not what they are copies of. */
export function falseCopies(dir: string): string[] {
  const files = readdirSync(dir, { recursive: true, encoding: 'utf8' })
  return files.filter((file) => {
    if (!file.endsWith('.br')) return false
    return !brotliDecompressSync(readFileSync(join(dir, file))).equals(readFileSync(join(dir, file.slice(0, -'.br'.length))))
  })
}

export function budget(): Plugin {
  return {
    name: 'budget',
    apply: 'build',
    writeBundle: {
      order: 'post',
      sequential: true,
      // From what is on disk, which is what is served.
      handler(options, bundle) {
        const dir = options.dir ?? 'dist'
        const chunks = Object.values(bundle).filter((output) => output.type === 'chunk')
        const others = Object.keys(bundle).filter((file) => bundle[file]?.type === 'asset')
        const bytesOf = (file: string) => {
          const content = readFileSync(join(dir, file))
          return file.endsWith('.woff2') ? content.length : gzipSync(content).length
        }
        const all = weights(chunks, others, bytesOf)
        this.info(all.map(({ name, bytes, limit }) => `${name}: ${kb(bytes)} of ${kb(limit)}`).join('\n'))
        const wrong = [
          ...all.filter(({ bytes, limit }) => bytes > limit).map(({ name, bytes, limit }) => `${name} weigh ${kb(bytes)}, and may ${kb(limit)}`),
          ...falseCopies(dir).map((file) => `${file} is not a copy of the file beside it`),
        ]
        if (wrong.length > 0) this.error(wrong.join('\n'))
      },
    },
  }
}

function kb(bytes: number): string {
  return `${(bytes / 1000).toFixed(1)} KB`
}
