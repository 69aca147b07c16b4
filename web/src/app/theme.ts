// The theme: the system's until one is chosen. `public/theme.js` sets it before the first paint.

import { useState } from 'react'

export type Theme = 'dark' | 'light'

export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(document.documentElement.dataset.theme === 'light' ? 'light' : 'dark')
  const toggle = () => {
    const next = theme === 'light' ? 'dark' : 'light'
    document.documentElement.dataset.theme = next
    try {
      localStorage.setItem('omoi.theme', next)
    } catch {
      // Storage may be forbidden; the choice then lasts as long as the page.
    }
    setTheme(next)
  }
  return [theme, toggle]
}
