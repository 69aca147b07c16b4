import tailwind from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'
import { budget } from './budget.ts'
import { precompress } from './precompress.ts'

export default defineConfig({
  plugins: [react(), tailwind(), precompress(), budget()],
  // Nothing may be inlined: the pages are served with a policy that refuses it.
  build: { target: 'es2023', assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  server: { proxy: { '/api': 'http://127.0.0.1:18000' } },
  test: {
    environment: 'jsdom',
    // Those in e2e/ need a browser and a server.
    include: ['src/**/*.test.{ts,tsx}', '*.test.ts'],
    setupFiles: ['./src/test/setup.ts'],
    testTimeout: 30_000,
    restoreMocks: true,
    unstubGlobals: true,
  },
})
