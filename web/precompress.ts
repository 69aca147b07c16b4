// Writes a brotli copy beside every file that shrinks, so that the server never compresses anything.

import { brotliCompressSync, constants } from 'node:zlib'
import type { Plugin } from 'vite'

const COMPRESSIBLE = /\.(js|css|html|svg|json|txt)$/
const BYTES_MIN = 1024

export function precompress(): Plugin {
  return {
    name: 'precompress',
    apply: 'build',
    enforce: 'post',
    generateBundle(_options, bundle) {
      for (const file of Object.values(bundle)) {
        if (!COMPRESSIBLE.test(file.fileName)) continue
        const plain = Buffer.from(file.type === 'chunk' ? file.code : file.source)
        if (plain.length < BYTES_MIN) continue
        const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: plain.length }
        const small = brotliCompressSync(plain, { params })
        if (small.length < plain.length * 0.95) {
          this.emitFile({ type: 'asset', fileName: `${file.fileName}.br`, source: small })
        }
      }
    },
  }
}
