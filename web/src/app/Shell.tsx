import { Link, Outlet, useNavigate } from '@tanstack/react-router'
import { Ellipsis, Keyboard, LogOut, Moon, Plus, Search, Sun, Wifi, WifiOff } from 'lucide-react'
import { lazy, Suspense, useState } from 'react'
import { asProblem, type Problem } from '../api/problem'
import { useSession } from '../api/session'
import { signOut } from '../api/sign'
import { NeedsYou } from '../features/home/NeedsYou'
import { useUnseen } from '../features/home/unseen'
import type { StreamState } from '../live/stream'
import { Menu } from '../ui/Menu'
import { Banner, Skeleton } from '../ui/panels'
import { clock } from '../ui/time'
import { KeyList } from './KeyList'
import { useKeys } from './keys'
import { useConnection } from './live'
import { NAV } from './pages'
import { useTheme, type Theme } from './theme'
import { Toasts } from './Toasts'

/** Needed once somebody asks for it. */
const Palette = lazy(() => import('./Palette').then((module) => ({ default: module.Palette })))

/** What surrounds every page: navigation on the left, or below on a narrow screen, and the state of the stream. */
export function Shell() {
  const connection = useConnection()
  const unseen = useUnseen()
  const navigate = useNavigate()
  const [theme, toggleTheme] = useTheme()
  const [isListing, setIsListing] = useState(false)
  const [problem, setProblem] = useState<Problem>()
  const [isSearching, setIsSearching] = useState(false)
  const newTask = () => void navigate({ to: '/sandboxes/new' })
  useKeys({
    ...Object.fromEntries(NAV.map(({ to, keys }) => [keys, () => void navigate({ to })])),
    'mod k': () => setIsSearching(!isSearching),
    c: newTask,
    'alt t': toggleTheme,
    '?': () => setIsListing(true),
  })
  const leave = () => signOut().catch((error: unknown) => setProblem(asProblem(error)))

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
        {NAV.map(({ to, label, icon: Icon, isFirst }) => (
          <Link
            key={to}
            to={to}
            activeOptions={{ exact: to === '/' }}
            className={`${isFirst ? 'flex' : 'hidden md:flex'} min-h-11 flex-1 flex-col items-center justify-center gap-x-2 rounded px-1 text-2xs text-muted hover:bg-raised hover:text-fg aria-[current=page]:bg-sunken aria-[current=page]:font-medium aria-[current=page]:text-fg md:min-h-8 md:flex-none md:flex-row md:justify-start md:px-2 md:text-sm`}
          >
            <Icon size={15} aria-hidden />
            {label}
            {to === '/monitor' && unseen && <Dot told={unseen} />}
          </Link>
        ))}
        <div className="flex flex-1 md:hidden">
          <Menu
            label="More pages"
            items={NAV.filter(({ isFirst }) => !isFirst).map(({ to, label }) => ({ label, onChoose: () => void navigate({ to }) }))}
            className="relative flex min-h-11 flex-1 flex-col items-center justify-center rounded px-1 text-2xs text-muted"
          >
            <Ellipsis size={15} aria-hidden />
            More
            {unseen && <Dot told={unseen} />}
          </Menu>
        </div>
      </nav>
      <div className="flex min-h-0 min-w-0 flex-1 flex-col">
        <header className="flex h-12 shrink-0 items-center gap-3 border-b border-line bg-surface px-4">
          <span className="font-semibold md:hidden">Omoi</span>
          <button
            type="button"
            aria-label="Go to, search, act (Ctrl K)"
            onClick={() => setIsSearching(true)}
            className="inline-flex h-7 min-w-7 cursor-pointer items-center justify-center gap-2 rounded border border-line px-2 text-xs text-muted hover:bg-raised hover:text-fg md:min-w-56 md:justify-start"
          >
            <Search size={14} aria-hidden />
            <span className="hidden flex-1 text-left md:inline">Go to, search, act</span>
            <kbd className="hidden font-mono text-2xs md:inline">Ctrl K</kbd>
          </button>
          <span className="flex-1" />
          {connection && <Connection state={connection} />}
          <NeedsYou />
          <Link
            to="/sandboxes/new"
            className="inline-flex min-h-7 items-center gap-1 rounded border border-line-strong px-2 font-medium whitespace-nowrap hover:bg-raised"
          >
            <Plus size={14} aria-hidden />
            <span className="sr-only md:not-sr-only">New task</span>
          </Link>
          <Account theme={theme} onTheme={toggleTheme} onKeys={() => setIsListing(true)} onLeave={() => void leave()} />
        </header>
        {connection && <NotLive state={connection} />}
        {problem && <Banner>{problem.message} You are still signed in.</Banner>}
        <main id="main" tabIndex={-1} className="flex min-h-0 flex-1 flex-col outline-none">
          <Suspense fallback={<Skeleton rows={8} label="Loading the page" />}>
            <Outlet />
          </Suspense>
        </main>
      </div>
      {isSearching && (
        <Suspense>
          <Palette
            actions={[
              { label: 'New task', keys: 'c', run: newTask },
              { label: 'Other theme', keys: 'Alt T', run: toggleTheme },
              { label: 'List of keys', keys: '?', run: () => setIsListing(true) },
              { label: 'Sign out', run: () => void leave() },
            ]}
            onClose={() => setIsSearching(false)}
          />
        </Suspense>
      )}
      <Toasts />
      {isListing && <KeyList onClose={() => setIsListing(false)} />}
    </div>
  )
}

/** Something is there to be looked at; what, is said to those who do not see it. */
function Dot({ told }: { told: string }) {
  return (
    <span title={told} className="absolute top-2 right-[30%] size-2 rounded-full bg-guard md:static md:ml-auto">
      <span className="sr-only">({told})</span>
    </span>
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

type AccountProps = { theme: Theme; onTheme: () => void; onKeys: () => void; onLeave: () => void }

function Account({ theme, onTheme, onKeys, onLeave }: AccountProps) {
  const who = useSession()
  const ThemeIcon = theme === 'dark' ? Sun : Moon
  return (
    <div className="flex items-center gap-1">
      {who && (
        <span className="mr-1 hidden max-w-32 truncate text-xs text-muted md:inline" title={`${who.name}, ${who.role}`}>
          {who.name}
        </span>
      )}
      <IconButton label={theme === 'dark' ? 'Light theme' : 'Dark theme'} onClick={onTheme}>
        <ThemeIcon size={15} aria-hidden />
      </IconButton>
      <span className="hidden md:contents">
        <IconButton label="Keys" onClick={onKeys}>
          <Keyboard size={15} aria-hidden />
        </IconButton>
      </span>
      <IconButton label="Sign out" onClick={onLeave}>
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
