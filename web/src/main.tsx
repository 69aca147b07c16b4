import './index.css'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { asProblem } from './api/problem'
import { session } from './api/session'
import { router } from './app/router'

const RETRIES = 2
const RELOAD_AGAIN_MS = 60_000

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      retry: (failures, error) => failures < RETRIES && asProblem(error).isPassing,
    },
  },
})

// The next person at this tab sees nothing of the one before.
session.subscribe(() => {
  if (!session.get()) queries.clear()
})

// After an upgrade the parts of the earlier pages are gone: loading the page anew, once, brings the later ones.
window.addEventListener('vite:preloadError', (event) => {
  const reloaded = 'omoi.reloaded'
  try {
    if (Date.now() - Number(sessionStorage.getItem(reloaded) ?? 0) < RELOAD_AGAIN_MS) return
    sessionStorage.setItem(reloaded, String(Date.now()))
  } catch {
    // Without a memory it could go on for ever.
    return
  }
  event.preventDefault()
  location.reload()
})

const root = document.getElementById('root')
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  )
}
