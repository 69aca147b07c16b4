// Every page and its address. What a page can keep in the address, it keeps there.

import {
  createRootRoute,
  createRoute,
  createRouter,
  Link,
  redirect,
  useNavigate,
  type ErrorComponentProps,
} from '@tanstack/react-router'
import { lazy, Suspense, useCallback } from 'react'
import { asProblem } from '../api/problem'
import { session } from '../api/session'
import { SandboxListPage } from '../features/sandbox/SandboxListPage'
import { asSandboxSearch, type SandboxSearch } from '../features/sandbox/search'
import { SignIn } from '../features/session/SignIn'
import { asTaskStatus } from '../features/task/status'
import { TaskListPage } from '../features/task/TaskListPage'
import { Page } from '../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../ui/panels'
import { Shell } from './Shell'

/** Markdown, diffs and terminal are needed there alone. */
const SandboxPage = lazy(() => import('../features/sandbox/SandboxPage').then((module) => ({ default: module.SandboxPage })))

const root = createRootRoute()

const signIn = createRoute({
  getParentRoute: () => root,
  path: '/login',
  validateSearch: (search): { next?: string } => (isOwnPath(search.next) ? { next: search.next } : {}),
  component: function SignInRoute() {
    const { next } = signIn.useSearch()
    return <SignIn onDone={() => router.history.push(next ?? '/')} />
  },
})

/** Everything but the sign-in needs somebody who is signed in. */
const shell = createRoute({
  getParentRoute: () => root,
  id: 'shell',
  component: Shell,
  beforeLoad: ({ location }) => {
    if (!session.get()) throw redirect({ to: '/login', search: location.href === '/' ? {} : { next: location.href } })
  },
})

const home = createRoute({
  getParentRoute: () => shell,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/sandboxes' })
  },
})

const sandboxes = createRoute({
  getParentRoute: () => shell,
  path: '/sandboxes',
  validateSearch: (search): { state?: 'live' } => (search.state === 'live' ? { state: 'live' } : {}),
  component: function SandboxesRoute() {
    return <SandboxListPage isLiveOnly={sandboxes.useSearch().state === 'live'} />
  },
})

const sandbox = createRoute({
  getParentRoute: () => shell,
  path: '/sandboxes/$id',
  validateSearch: asSandboxSearch,
  component: function SandboxRoute() {
    const navigate = useNavigate({ from: '/sandboxes/$id' })
    const onSearch = useCallback(
      (change: SandboxSearch) => void navigate({ search: (before) => asSandboxSearch({ ...before, ...change }), replace: true }),
      [navigate],
    )
    return (
      <Suspense fallback={<Skeleton rows={8} label="Loading the page" />}>
        <SandboxPage id={sandbox.useParams().id} search={sandbox.useSearch()} onSearch={onSearch} />
      </Suspense>
    )
  },
})

const tasks = createRoute({
  getParentRoute: () => shell,
  path: '/tasks',
  validateSearch: (search): { status?: NonNullable<ReturnType<typeof asTaskStatus>> } => {
    const status = asTaskStatus(search.status)
    return status ? { status } : {}
  },
  component: function TasksRoute() {
    const navigate = useNavigate({ from: '/tasks' })
    const { status } = tasks.useSearch()
    return (
      <TaskListPage
        status={status}
        onStatus={(wanted) => void navigate({ search: wanted ? { status: wanted } : {}, replace: true })}
      />
    )
  },
})

const unknown = createRoute({ getParentRoute: () => shell, path: '$', component: NotFound })

export const router = createRouter({
  routeTree: root.addChildren([signIn, shell.addChildren([home, sandboxes, sandbox, tasks, unknown])]),
  defaultErrorComponent: Crash,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}

/** A session that ended, by the person or by the server, leads to the sign-in and back. */
session.subscribe(() => {
  if (session.get()) return
  const here = router.state.location.href
  void router.navigate({ to: '/login', search: here === '/' || here.startsWith('/login') ? {} : { next: here } })
})

/** Only an address of these pages: a link must not lead elsewhere by way of the sign-in. */
export function isOwnPath(path: unknown): path is string {
  return typeof path === 'string' && /^\/(?![/\\])/.test(path)
}

function NotFound() {
  return (
    <Page title="No such page">
      <Empty title="There is nothing at this address.">
        <Link to="/sandboxes" className="text-accent underline">
          All sandboxes
        </Link>
      </Empty>
    </Page>
  )
}

function Crash({ error, reset }: ErrorComponentProps) {
  return <ErrorPanel error={asProblem(error)} onRetry={reset} />
}
