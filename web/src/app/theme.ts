// The theme: the system's until one is chosen. `public/theme.js` sets it before the first paint.

import { useSyncExternalStore } from 'react'
import { recall, remember, subscribe } from '../ui/remembered'

export type Theme = 'dark' | 'light'
export type ThemeChoice = Theme | 'system'

export const THEME_CHOICES: readonly ThemeChoice[] = ['system', 'dark', 'light']

const shown = (): Theme => (document.documentElement.dataset.theme === 'light' ? 'light' : 'dark')

export function useTheme(): [Theme, () => void] {
  const theme = useSyncExternalStore(subscribe, shown)
  return [theme, () => chooseTheme(theme === 'light' ? 'dark' : 'light')]
}

export function useThemeChoice(): ThemeChoice {
  const stored = useSyncExternalStore(subscribe, () => recall('theme'))
  return stored === 'dark' || stored === 'light' ? stored : 'system'
}

export function chooseTheme(choice: ThemeChoice) {
  const isLight = choice === 'system' ? matchMedia('(prefers-color-scheme: light)').matches : choice === 'light'
  document.documentElement.dataset.theme = isLight ? 'light' : 'dark'
  remember('theme', choice === 'system' ? null : choice)
}
