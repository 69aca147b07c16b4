import { Link, Outlet } from '@tanstack/react-router'
import { Box, ListTodo, LogOut, Moon, Sun, Wifi, WifiOff } from 'lucide-react'
import { session, useSession } from '../api/session'
import type { StreamState } from '../live/stream'
import { Banner } from '../ui/panels'
import { clock } from '../ui/time'
import { useConnection } from './live'
import { useTheme } from './theme'

const NAV = [
  { to: '/sandboxes', label: 'Sandboxes', icon: Box },
  { to: '/tasks', label: 'Tasks', icon: ListTodo },
] as const

/** What surrounds every page: navigation on the left, or below on a narrow screen, and the state of the stream. */
export function Shell() {
  const connection = useConnection()
  return (
    <div className="flex h-dvh flex-col-reverse md:flex-row">
      <a
        href="#main"
        className="sr-only rounded bg-accent px-3 py-1 text-on-accent focus:not-sr-only focus:absolute focus:top-2 focus:left-2 focus:z-10"
      >
        Skip to content
      </a>
      <nav
        aria-label="Main"
        className="flex shrink-0 gap-1 border-t border-line bg-surface p-1 md:w-46 md:flex-col md:border-t-0 md:border-r md:p-2"
      >
        <span className="hidden px-2 py-2 font-semibold md:block">Omoi</span>
        {NAV.map(({ to, label, icon: Icon }) => (
          <Link
            key={to}
            to={to}
            className="flex min-h-9 flex-1 items-center justify-center gap-2 rounded px-2 text-muted hover:bg-raised hover:text-fg aria-[current=page]:bg-sunken aria-[current=page]:font-medium aria-[current=page]:text-fg md:min-h-8 md:flex-none md:justify-start"
          >
            <Icon size={15} aria-hidden />
            {label}
          </Link>
        ))}
      </nav>
      <div className="flex min-h-0 min-w-0 flex-1 flex-col">
        <header className="flex h-12 shrink-0 items-center gap-3 border-b border-line bg-surface px-4">
          <span className="font-semibold md:hidden">Omoi</span>
          <span className="flex-1" />
          {connection && <Connection state={connection} />}
          <Account />
        </header>
        {connection && <NotLive state={connection} />}
        <main id="main" tabIndex={-1} className="flex min-h-0 flex-1 flex-col outline-none">
          <Outlet />
        </main>
      </div>
    </div>
  )
}

function Connection({ state }: { state: StreamState }) {
  const isLive = state.kind === 'live'
  const Icon = isLive ? Wifi : WifiOff
  return (
    <span className={`inline-flex items-center gap-1.5 text-xs ${isLive ? 'text-ok' : 'text-warn'}`}>
      <Icon size={14} aria-hidden />
      {words(state)}
    </span>
  )
}

function words(state: StreamState): string {
  switch (state.kind) {
    case 'connecting':
      return 'Connecting…'
    case 'live':
      return 'Live'
    case 'lost':
      return 'Reconnecting…'
    case 'refused':
      return 'Not live'
    default:
      return state satisfies never
  }
}

/** Nothing stale is shown as if it were new. */
function NotLive({ state }: { state: StreamState }) {
  switch (state.kind) {
    case 'connecting':
    case 'live':
      return null
    case 'lost':
      return <Banner>Not live: what is shown is as of {clock(state.since)}. Reconnecting…</Banner>
    case 'refused':
      return (
        <Banner>
          Not live: {state.problem.message}{' '}
          <button type="button" onClick={() => location.reload()} className="min-h-6 cursor-pointer underline">
            Reload
          </button>
        </Banner>
      )
    default:
      return state satisfies never
  }
}

function Account() {
  const who = useSession()
  const [theme, toggleTheme] = useTheme()
  const ThemeIcon = theme === 'dark' ? Sun : Moon
  return (
    <div className="flex items-center gap-1">
      {who && (
        <span className="mr-1 max-w-32 truncate text-xs text-muted" title={`${who.name}, ${who.role}`}>
          {who.name}
        </span>
      )}
      <IconButton label={theme === 'dark' ? 'Light theme' : 'Dark theme'} onClick={toggleTheme}>
        <ThemeIcon size={15} aria-hidden />
      </IconButton>
      <IconButton label="Sign out" onClick={session.end}>
        <LogOut size={15} aria-hidden />
      </IconButton>
    </div>
  )
}

type IconButtonProps = { label: string; onClick: () => void; children: React.ReactNode }

function IconButton({ label, onClick, children }: IconButtonProps) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      onClick={onClick}
      className="inline-flex size-8 cursor-pointer items-center justify-center rounded text-muted hover:bg-raised hover:text-fg"
    >
      {children}
    </button>
  )
}
