// The pages that navigation, keys and palette lead to: each is named once.

import { Bot, Box, Coins, FolderGit2, House, ListTodo, ScrollText, Settings, type LucideIcon } from 'lucide-react'

export type NavPage = {
  to: '/' | '/sandboxes' | '/tasks' | '/projects' | '/agents' | '/costs' | '/audit' | '/settings'
  label: string
  icon: LucideIcon
  keys: string
  /** In the bar of a narrow screen; the rest is behind one button there. */
  isFirst?: true
}

export const NAV: readonly NavPage[] = [
  { to: '/', label: 'Home', icon: House, keys: 'g d', isFirst: true },
  { to: '/sandboxes', label: 'Sandboxes', icon: Box, keys: 'g x', isFirst: true },
  { to: '/tasks', label: 'Tasks', icon: ListTodo, keys: 'g t', isFirst: true },
  { to: '/projects', label: 'Projects', icon: FolderGit2, keys: 'g p', isFirst: true },
  { to: '/agents', label: 'Agents', icon: Bot, keys: 'g a' },
  { to: '/costs', label: 'Costs', icon: Coins, keys: 'g c' },
  { to: '/audit', label: 'Audit', icon: ScrollText, keys: 'g u' },
  { to: '/settings', label: 'Settings', icon: Settings, keys: 'g ,' },
]
