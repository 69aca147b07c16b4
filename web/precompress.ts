// Writes a brotli copy beside every file that shrinks, so that the server never compresses anything.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'
import type { Plugin } from 'vite'

const COMPRESSIBLE = /\.(js|css|html|svg|json|txt)$/
const BYTES_MIN = 1024

export function precompress(): Plugin {
  return {
    name: 'precompress',
    apply: 'build',
    // From what is on disk: other plugins change a bundle to the very end.
    writeBundle(options, bundle) {
      for (const name of Object.keys(bundle).filter((file) => COMPRESSIBLE.test(file))) {
        const path = join(options.dir ?? 'dist', name)
        const plain = readFileSync(path)
        if (plain.length < BYTES_MIN) continue
        const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: plain.length }
        const small = brotliCompressSync(plain, { params })
        if (small.length < plain.length * 0.95) writeFileSync(`${path}.br`, small)
      }
    },
  }
}
