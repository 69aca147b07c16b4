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
import { resumeSession } from '../api/sign'
import { HomePage } from '../features/home/HomePage'
import { NewProjectPage } from '../features/project/NewProjectPage'
import { ProjectListPage } from '../features/project/ProjectListPage'
import { ProjectPage } from '../features/project/ProjectPage'
import { SandboxListPage } from '../features/sandbox/SandboxListPage'
import { asSandboxSearch, type SandboxSearch } from '../features/sandbox/search'
import { SignIn } from '../features/session/SignIn'
import { asBoardSearch, type BoardSearch } from '../features/task/board/search'
import { asGraphSearch, type GraphSearch } from '../features/task/graph/search'
import { asTaskStatus } from '../features/task/status'
import { NewTaskPage } from '../features/task/NewTaskPage'
import { TaskPage } from '../features/task/TaskPage'
import { Page } from '../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../ui/panels'
import { Shell } from './Shell'

/** Markdown, diffs and terminal are needed there alone. */
const SandboxPage = lazy(() => import('../features/sandbox/SandboxPage').then((module) => ({ default: module.SandboxPage })))

const BoardPage = lazy(() => import('../features/task/board/BoardPage').then((module) => ({ default: module.BoardPage })))
const GraphPage = lazy(() => import('../features/task/graph/GraphPage').then((module) => ({ default: module.GraphPage })))
const ComparePage = lazy(() => import('../features/sandbox/compare/ComparePage').then((module) => ({ default: module.ComparePage })))

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
  beforeLoad: async ({ location }) => {
    if (await resumeSession()) return
    throw redirect({ to: '/login', search: location.href === '/' ? {} : { next: location.href } })
  },
})

const home = createRoute({ getParentRoute: () => shell, path: '/', component: HomePage })

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

const newTask = createRoute({
  getParentRoute: () => shell,
  path: '/sandboxes/new',
  validateSearch: (search): { project?: string } =>
    typeof search.project === 'string' ? { project: search.project } : {},
  component: function NewTaskRoute() {
    const navigate = useNavigate()
    const onStarted = (id: string) => void navigate({ to: '/sandboxes/$id', params: { id } })
    return <NewTaskPage project={newTask.useSearch().project} onStarted={onStarted} />
  },
})

const task = createRoute({
  getParentRoute: () => shell,
  path: '/tasks/$id',
  component: function TaskRoute() {
    const navigate = useNavigate()
    const { id } = task.useParams()
    const onStarted = (sandboxId: string) => void navigate({ to: '/sandboxes/$id', params: { id: sandboxId } })
    return <TaskPage key={id} id={id} onStarted={onStarted} />
  },
})

const projects = createRoute({ getParentRoute: () => shell, path: '/projects', component: ProjectListPage })

const newProject = createRoute({
  getParentRoute: () => shell,
  path: '/projects/new',
  component: function NewProjectRoute() {
    const navigate = useNavigate()
    return <NewProjectPage onDone={(id) => void navigate({ to: '/projects/$id', params: { id } })} />
  },
})

const project = createRoute({
  getParentRoute: () => shell,
  path: '/projects/$id',
  component: function ProjectRoute() {
    const { id } = project.useParams()
    return <ProjectPage key={id} id={id} />
  },
})

const board = createRoute({
  getParentRoute: () => shell,
  path: '/board',
  validateSearch: asBoardSearch,
  component: function BoardRoute() {
    const navigate = useNavigate({ from: '/board' })
    // Going back closes the drawer; what is typed into a filter is no step to go back to.
    const onSearch = (change: BoardSearch) =>
      void navigate({ search: (before) => asBoardSearch({ ...before, ...change }), replace: change.task === undefined })
    return (
      <Suspense fallback={<Skeleton rows={8} label="Loading the page" />}>
        <BoardPage search={board.useSearch()} onSearch={onSearch} />
      </Suspense>
    )
  },
})

const graph = createRoute({
  getParentRoute: () => shell,
  path: '/graph',
  validateSearch: asGraphSearch,
  component: function GraphRoute() {
    const navigate = useNavigate({ from: '/graph' })
    const onSearch = (change: GraphSearch) =>
      void navigate({ search: (before) => asGraphSearch({ ...before, ...change }), replace: change.focus === undefined })
    return (
      <Suspense fallback={<Skeleton rows={8} label="Loading the page" />}>
        <GraphPage search={graph.useSearch()} onSearch={onSearch} />
      </Suspense>
    )
  },
})

const compare = createRoute({
  getParentRoute: () => shell,
  path: '/compare',
  validateSearch: (search): { a?: string; b?: string } => ({
    ...(typeof search.a === 'string' && { a: search.a }),
    ...(typeof search.b === 'string' && { b: search.b }),
  }),
  component: function CompareRoute() {
    const { a, b } = compare.useSearch()
    return (
      <Suspense fallback={<Skeleton rows={8} label="Loading the page" />}>
        <ComparePage a={a} b={b} />
      </Suspense>
    )
  },
})

/** The list is a view of the board. */
const tasks = createRoute({
  getParentRoute: () => shell,
  path: '/tasks',
  beforeLoad: ({ search }) => {
    const status = asTaskStatus((search as Record<string, unknown>).status)
    throw redirect({ to: '/board', search: { view: 'list', ...(status && { status }) }, replace: true })
  },
})

const unknown = createRoute({ getParentRoute: () => shell, path: '$', component: NotFound })

const PAGES = [home, board, graph, sandboxes, newTask, sandbox, compare, tasks, task, projects, newProject, project, unknown] as const

export const router = createRouter({
  routeTree: root.addChildren([signIn, shell.addChildren(PAGES)]),
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
        <Link to="/" className="text-accent underline">
          Home
        </Link>
      </Empty>
    </Page>
  )
}

function Crash({ error, reset }: ErrorComponentProps) {
  const retry = () => {
    reset()
    // What failed may be what runs before the page, such as the question who is signed in.
    void router.invalidate()
  }
  return <ErrorPanel error={asProblem(error)} onRetry={retry} />
}
