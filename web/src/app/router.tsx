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
import { lazy, useCallback } from 'react'
import { asProblem } from '../api/problem'
import { session } from '../api/session'
import { resumeSession } from '../api/sign'
import { asAuditSearch } from '../features/audit/search'
import { asCostSearch, type CostSearch } from '../features/cost/search'
import { HomePage } from '../features/home/HomePage'
import { asMonitorSearch, type MonitorSearch } from '../features/monitor/search'
import { asListSearch, type ListSearch } from '../features/sandbox/list'
import { asSandboxSearch, type SandboxSearch } from '../features/sandbox/search'
import { SignIn } from '../features/session/SignIn'
import { asSpecListSearch, asSpecSearch, type SpecSearch } from '../features/spec/search'
import { asBoardSearch, type BoardSearch } from '../features/task/board/search'
import { asGraphSearch, type GraphSearch } from '../features/task/graph/search'
import { asTaskSearch, type TaskSearch } from '../features/task/search'
import { asTaskStatus } from '../features/task/status'
import { Page } from '../ui/Page'
import { Empty, ErrorPanel } from '../ui/panels'
import { Shell } from './Shell'

/** Only the first page comes with the shell; every other is fetched when it is opened. */
const BoardPage = lazy(async () => ({ default: (await import('../features/task/board/BoardPage')).BoardPage }))
const GraphPage = lazy(async () => ({ default: (await import('../features/task/graph/GraphPage')).GraphPage }))
const ComparePage = lazy(async () => ({ default: (await import('../features/sandbox/compare/ComparePage')).ComparePage }))
const AgentListPage = lazy(async () => ({ default: (await import('../features/agent/AgentListPage')).AgentListPage }))
const AuditPage = lazy(async () => ({ default: (await import('../features/audit/AuditPage')).AuditPage }))
const CostPage = lazy(async () => ({ default: (await import('../features/cost/CostPage')).CostPage }))
const MonitorPage = lazy(async () => ({ default: (await import('../features/monitor/MonitorPage')).MonitorPage }))
const NewProjectPage = lazy(async () => ({ default: (await import('../features/project/NewProjectPage')).NewProjectPage }))
const NewTaskPage = lazy(async () => ({ default: (await import('../features/task/NewTaskPage')).NewTaskPage }))
const ProjectListPage = lazy(async () => ({ default: (await import('../features/project/ProjectListPage')).ProjectListPage }))
const ProjectPage = lazy(async () => ({ default: (await import('../features/project/ProjectPage')).ProjectPage }))
const SandboxListPage = lazy(async () => ({ default: (await import('../features/sandbox/SandboxListPage')).SandboxListPage }))
const SandboxPage = lazy(async () => ({ default: (await import('../features/sandbox/SandboxPage')).SandboxPage }))
const SettingsPage = lazy(async () => ({ default: (await import('../features/settings/SettingsPage')).SettingsPage }))
const TaskPage = lazy(async () => ({ default: (await import('../features/task/TaskPage')).TaskPage }))

const SpecListPage = lazy(async () => ({ default: (await import('../features/spec/SpecListPage')).SpecListPage }))
const NewSpecPage = lazy(async () => ({ default: (await import('../features/spec/NewSpecPage')).NewSpecPage }))
const SpecPage = lazy(async () => ({ default: (await import('../features/spec/SpecPage')).SpecPage }))

const root = createRootRoute()

const signIn = createRoute({
  getParentRoute: () => root,
  path: '/login',
  validateSearch: (search): { next?: string } => (isOwnPath(search.next) ? { next: search.next } : {}),
  component: function SignInRoute() {
    // The router hands on what the check above has left out; so does it with every search below.
    const { next } = signIn.useSearch()
    return <SignIn onDone={() => router.history.push(isOwnPath(next) ? next : '/')} />
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
  validateSearch: asListSearch,
  component: function SandboxesRoute() {
    const navigate = useNavigate({ from: '/sandboxes' })
    const onSearch = (change: ListSearch) =>
      void navigate({ search: (before) => asListSearch({ ...before, ...change }), replace: true })
    return <SandboxListPage search={asListSearch(sandboxes.useSearch())} onSearch={onSearch} />
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
    return <SandboxPage id={sandbox.useParams().id} search={asSandboxSearch(sandbox.useSearch())} onSearch={onSearch} />
  },
})

const newTask = createRoute({
  getParentRoute: () => shell,
  path: '/sandboxes/new',
  validateSearch: asNewSearch,
  component: function NewTaskRoute() {
    const navigate = useNavigate()
    const onStarted = (id: string) => void navigate({ to: '/sandboxes/$id', params: { id } })
    return <NewTaskPage project={asNewSearch(newTask.useSearch()).project} onStarted={onStarted} />
  },
})

const task = createRoute({
  getParentRoute: () => shell,
  path: '/tasks/$id',
  validateSearch: asTaskSearch,
  component: function TaskRoute() {
    const navigate = useNavigate({ from: '/tasks/$id' })
    const { id } = task.useParams()
    const onStarted = (sandboxId: string) => void navigate({ to: '/sandboxes/$id', params: { id: sandboxId } })
    const onSearch = (change: TaskSearch) =>
      void navigate({ search: (before) => asTaskSearch({ ...before, ...change }), replace: true })
    return <TaskPage key={id} id={id} search={asTaskSearch(task.useSearch())} onSearch={onSearch} onStarted={onStarted} />
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
    return <BoardPage search={asBoardSearch(board.useSearch())} onSearch={onSearch} />
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
    return <GraphPage search={asGraphSearch(graph.useSearch())} onSearch={onSearch} />
  },
})

const compare = createRoute({
  getParentRoute: () => shell,
  path: '/compare',
  validateSearch: asCompareSearch,
  component: function CompareRoute() {
    const { a, b } = asCompareSearch(compare.useSearch())
    return <ComparePage a={a} b={b} />
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

const agents = createRoute({ getParentRoute: () => shell, path: '/agents', component: AgentListPage })

const audit = createRoute({
  getParentRoute: () => shell,
  path: '/audit',
  validateSearch: asAuditSearch,
  component: function AuditRoute() {
    const navigate = useNavigate({ from: '/audit' })
    return <AuditPage search={asAuditSearch(audit.useSearch())} onSearch={(search) => void navigate({ search })} />
  },
})

const costs = createRoute({
  getParentRoute: () => shell,
  path: '/costs',
  validateSearch: asCostSearch,
  component: function CostsRoute() {
    const navigate = useNavigate({ from: '/costs' })
    const onSearch = (change: CostSearch) =>
      void navigate({ search: (before) => asCostSearch({ ...before, ...change }), replace: true })
    return <CostPage search={asCostSearch(costs.useSearch())} onSearch={onSearch} />
  },
})

const monitor = createRoute({
  getParentRoute: () => shell,
  path: '/monitor',
  validateSearch: asMonitorSearch,
  component: function MonitorRoute() {
    const navigate = useNavigate({ from: '/monitor' })
    const onSearch = (change: MonitorSearch) =>
      void navigate({ search: (before) => asMonitorSearch({ ...before, ...change }), replace: true })
    return <MonitorPage search={asMonitorSearch(monitor.useSearch())} onSearch={onSearch} />
  },
})

const settings = createRoute({
  getParentRoute: () => shell,
  path: '/settings',
  beforeLoad: () => {
    throw redirect({ to: '/settings/$section', params: { section: 'profile' }, replace: true })
  },
})

const settingsSection = createRoute({
  getParentRoute: () => shell,
  path: '/settings/$section',
  component: function SettingsRoute() {
    return <SettingsPage section={settingsSection.useParams().section} />
  },
})

const specs = createRoute({
  getParentRoute: () => shell,
  path: '/specs',
  validateSearch: asSpecListSearch,
  component: function SpecsRoute() {
    const navigate = useNavigate({ from: '/specs' })
    return (
      <SpecListPage
        search={asSpecListSearch(specs.useSearch())}
        onSearch={(search) => void navigate({ search: asSpecListSearch(search), replace: true })}
      />
    )
  },
})

const newSpec = createRoute({
  getParentRoute: () => shell,
  path: '/specs/new',
  validateSearch: asNewSearch,
  component: function NewSpecRoute() {
    const navigate = useNavigate()
    const onDone = (id: string) => void navigate({ to: '/specs/$id', params: { id } })
    return <NewSpecPage project={asNewSearch(newSpec.useSearch()).project} onDone={onDone} />
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
    return <SpecPage key={id} id={id} search={asSpecSearch(spec.useSearch())} onSearch={onSearch} />
  },
})

const unknown = createRoute({ getParentRoute: () => shell, path: '$', component: NotFound })

const PAGES = [
  home,
  board,
  graph,
  sandboxes,
  newTask,
  sandbox,
  compare,
  tasks,
  task,
  projects,
  newProject,
  project,
  specs,
  newSpec,
  spec,
  monitor,
  agents,
  audit,
  costs,
  settings,
  settingsSection,
  unknown,
] as const

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

function asNewSearch({ project: id }: Record<string, unknown>): { project?: string } {
  return typeof id === 'string' ? { project: id } : {}
}

function asCompareSearch({ a, b }: Record<string, unknown>): { a?: string; b?: string } {
  return { ...(typeof a === 'string' && { a }), ...(typeof b === 'string' && { b }) }
}

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
