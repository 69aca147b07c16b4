import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliCompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { falseCopies, weights, type Chunk } from './budget'

function chunk(fileName: string, more: Partial<Chunk> = {}): Chunk {
  return { fileName, isEntry: false, isDynamicEntry: false, facadeModuleId: null, imports: [], ...more }
}

const CHUNKS = [
  chunk('index.js', { isEntry: true, imports: ['shared.js'] }),
  chunk('shared.js'),
  chunk('Sandbox.js', { isDynamicEntry: true, facadeModuleId: '/web/src/features/sandbox/SandboxPage.tsx', imports: ['shared.js', 'diff.js'] }),
  chunk('diff.js', { imports: ['shared.js'] }),
  chunk('Graph.js', { isDynamicEntry: true, imports: ['shared.js', 'layout.js'] }),
  chunk('layout.js', { imports: ['index.js'] }),
]
const BYTES: Record<string, number> = {
  'index.js': 1, 'shared.js': 10, 'Sandbox.js': 100, 'diff.js': 1000, 'Graph.js': 10_000, 'layout.js': 100_000,
  'a.css': 3, 'b.css': 4, 'a.woff2': 5, 'a.svg': 6,
}

test('what is loaded together is weighed together, and each file once', () => {
  const found = weights(CHUNKS, ['a.css', 'b.css', 'a.woff2', 'a.svg'], (file) => BYTES[file] ?? 0)
  expect(found.map(({ name, bytes }) => [name, bytes])).toEqual([
    ['scripts of the first page', 11],
    ['scripts of the live page', 1111],
    ['Graph.js', 110_000],
    ['styles', 7],
    ['fonts', 5],
  ])
})

test('a live page that is not found is not taken for a light one', () => {
  const found = weights(CHUNKS.filter(({ fileName }) => fileName !== 'Sandbox.js'), [], () => 1)
  expect(found.find(({ name }) => name.includes('live'))?.bytes).toBe(Number.POSITIVE_INFINITY)
})

test('a compressed copy of something else is found', () => {
  const dir = mkdtempSync(join(tmpdir(), 'omoi-budget-'))
  writeFileSync(join(dir, 'a.js'), 'a')
  writeFileSync(join(dir, 'a.js.br'), brotliCompressSync('a'))
  writeFileSync(join(dir, 'b.js'), 'b')
  writeFileSync(join(dir, 'b.js.br'), brotliCompressSync('an earlier b'))
  expect(falseCopies(dir)).toEqual(['b.js.br'])
  rmSync(dir, { recursive: true })
})
