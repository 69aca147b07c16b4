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
import { asSpecListSearch, asSpecSearch, type SpecSearch } from '../features/spec/search'
import { asTaskStatus } from '../features/task/status'
import { NewTaskPage } from '../features/task/NewTaskPage'
import { TaskListPage } from '../features/task/TaskListPage'
import { TaskPage } from '../features/task/TaskPage'
import { Page } from '../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../ui/panels'
import { Shell } from './Shell'

/** Markdown, diffs and terminal are needed there alone. */
const SandboxPage = lazy(() => import('../features/sandbox/SandboxPage').then((module) => ({ default: module.SandboxPage })))

const SpecListPage = lazy(async () => ({ default: (await import('../features/spec/SpecListPage')).SpecListPage }))
const NewSpecPage = lazy(async () => ({ default: (await import('../features/spec/NewSpecPage')).NewSpecPage }))
const SpecPage = lazy(async () => ({ default: (await import('../features/spec/SpecPage')).SpecPage }))

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

const specs = createRoute({
  getParentRoute: () => shell,
  path: '/specs',
  validateSearch: asSpecListSearch,
  component: function SpecsRoute() {
    const navigate = useNavigate({ from: '/specs' })
    return (
      <Suspense fallback={<Skeleton rows={8} label="Loading the page" />}>
        <SpecListPage
          search={specs.useSearch()}
          onSearch={(search) => void navigate({ search: asSpecListSearch(search), replace: true })}
        />
      </Suspense>
    )
  },
})

const newSpec = createRoute({
  getParentRoute: () => shell,
  path: '/specs/new',
  validateSearch: (search): { project?: string } =>
    typeof search.project === 'string' ? { project: search.project } : {},
  component: function NewSpecRoute() {
    const navigate = useNavigate()
    const onDone = (id: string) => void navigate({ to: '/specs/$id', params: { id } })
    return (
      <Suspense fallback={<Skeleton rows={8} label="Loading the page" />}>
        <NewSpecPage project={newSpec.useSearch().project} onDone={onDone} />
      </Suspense>
    )
  },
})

const spec = createRoute({
  getParentRoute: () => shell,
  path: '/specs/$id',
  validateSearch: asSpecSearch,
  component: function SpecRoute() {
    const navigate = useNavigate({ from: '/specs/$id' })
    const { id } = spec.useParams()
    const onSearch = (change: SpecSearch) =>
      void navigate({ search: (before) => asSpecSearch({ ...before, ...change }), replace: true })
    return (
      <Suspense fallback={<Skeleton rows={8} label="Loading the page" />}>
        <SpecPage key={id} id={id} search={spec.useSearch()} onSearch={onSearch} />
      </Suspense>
    )
  },
})

const unknown = createRoute({ getParentRoute: () => shell, path: '$', component: NotFound })

const PAGES = [home, sandboxes, newTask, sandbox, tasks, task, projects, newProject, project, specs, newSpec, spec, unknown] as const

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
