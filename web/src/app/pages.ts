// The pages that navigation, keys and palette lead to: each is named once.

import { Activity, Bot, Box, ClipboardList, Coins, Columns3, FolderGit2, House, ScrollText, Settings, Workflow, type LucideIcon } from 'lucide-react'

export type NavPage = {
  to: '/' | '/board' | '/specs' | '/graph' | '/sandboxes' | '/monitor' | '/projects' | '/agents' | '/costs' | '/audit' | '/settings'
  label: string
  icon: LucideIcon
  keys: string
  /** In the bar of a narrow screen; the rest is behind one button there. */
  isFirst?: true
}

export const NAV: readonly NavPage[] = [
  { to: '/', label: 'Home', icon: House, keys: 'g d', isFirst: true },
  { to: '/board', label: 'Board', icon: Columns3, keys: 'g b', isFirst: true },
  { to: '/specs', label: 'Specs', icon: ClipboardList, keys: 'g s' },
  { to: '/graph', label: 'Graph', icon: Workflow, keys: 'g g' },
  { to: '/sandboxes', label: 'Sandboxes', icon: Box, keys: 'g x', isFirst: true },
  { to: '/monitor', label: 'Monitor', icon: Activity, keys: 'g m' },
  { to: '/projects', label: 'Projects', icon: FolderGit2, keys: 'g p', isFirst: true },
  { to: '/agents', label: 'Agents', icon: Bot, keys: 'g a' },
  { to: '/costs', label: 'Costs', icon: Coins, keys: 'g c' },
  { to: '/audit', label: 'Audit', icon: ScrollText, keys: 'g u' },
  { to: '/settings', label: 'Settings', icon: Settings, keys: 'g ,' },
]
