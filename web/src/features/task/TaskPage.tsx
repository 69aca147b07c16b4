import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { Problem } from '../../api/problem'
import { useFresh } from '../../app/live'
import { useKeys } from '../../app/keys'
import { TASK_CHANGES } from '../../live/changes'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { oneLine, plain } from '../../ui/plain'
import { Section } from '../../ui/Section'
import { State } from '../../ui/State'
import { Tabs, type TabItem } from '../../ui/Tabs'
import { Actions } from './Actions'
import { Attempts } from './Attempts'
import { ChangesTab } from './ChangesTab'
import { DependencyList } from './DependencyList'
import { Facts } from './Facts'
import { History } from './History'
import { OutcomeView } from './OutcomeView'
import { Proof } from './Proof'
import { taskAttempts, taskOne } from './queries'
import type { TaskSearch, TaskTab } from './search'
import { LOOKED_AT, Waits } from './Waits'

const TITLE_CHARS = 160
const TABS: TabItem<TaskTab>[] = [
  { id: 'attempts', label: 'Attempts' },
  { id: 'proof', label: 'Proof' },
  { id: 'changes', label: 'Changes' },
  { id: 'dependencies', label: 'Dependencies' },
  { id: 'history', label: 'History' },
]

type Props = {
  id: string
  search: TaskSearch
  onSearch: (change: TaskSearch) => void
  onStarted: (sandbox: string) => void
}

export function TaskPage({ id, search, onSearch, onStarted }: Props) {
  const task = useQuery(taskOne(id))
  const attempts = useQuery(taskAttempts(id))
  // Its own changes, and those of the sandbox that holds it and of the tasks that it waits for.
  const holder = task.data?.sandbox_id
  const before = task.data?.status === 'pending' && task.data.unmet_dependencies > 0 ? task.data.dependencies.slice(0, LOOKED_AT) : []
  const ids = [id, ...(holder ? [holder] : []), ...before].join(' ')
  const filter = useMemo(() => ({ entityIds: ids.split(' '), eventTypes: CHANGES }), [ids])
  useFresh(filter, [id, ...before].map((one) => ['task', one]))
  useKeys(Object.fromEntries(TABS.map((tab, n) => [String(n + 1), () => onSearch({ tab: tab.id })])))

  if (task.error instanceof Problem && [404, 422].includes(task.error.status)) {
    return (
      <Page title="No such task">
        <Empty title={`There is no task ${oneLine(id, TITLE_CHARS)}.`}>
          <Link to="/tasks" className="text-accent underline">
            All tasks
          </Link>
        </Empty>
      </Page>
    )
  }
  const title = task.data ? oneLine(task.data.title, TITLE_CHARS) : 'Task'
  const tab = search.tab ?? 'attempts'
  const sandboxes = attempts.data?.items ?? []
  return (
    <Page title={title} aside={task.data && <State state={task.data.status} />}>
      {task.isPending && <Skeleton rows={6} label="Loading the task" />}
      {task.error && <ErrorPanel error={task.error} onRetry={() => void task.refetch()} />}
      {task.data && (
        <div className="flex flex-col gap-4 p-4">
          <Facts task={task.data} />
          <Actions task={task.data} onStarted={onStarted} />
          <Waits task={task.data} />
          <OutcomeView task={task.data} />
          <div className="overflow-hidden rounded-lg border border-line bg-surface">
            <Tabs label="Views of the task" tabs={TABS} chosen={tab} onChoose={(chosen) => onSearch({ tab: chosen })}>
              {tab === 'attempts' && <Attempts attempts={attempts} />}
              {tab === 'proof' && <Proof id={id} />}
              {tab === 'changes' && <ChangesTab taskId={id} attempts={sandboxes} search={search} onSearch={onSearch} />}
              {tab === 'dependencies' && <DependencyList id={id} />}
              {tab === 'history' && <History task={task.data} attempts={sandboxes} />}
            </Tabs>
          </div>
          <Section title="What to do">
            <p className="untrusted px-3 py-2">{plain(task.data.description || task.data.title)}</p>
          </Section>
        </div>
      )}
    </Page>
  )
}

const CHANGES = [
  ...TASK_CHANGES,
  'SANDBOX_ENDED',
  'SANDBOX_RETURNED',
  'SANDBOX_SPAWNED',
  'SANDBOX_KEPT',
  'SANDBOX_UNKEPT',
  'SANDBOX_model.call',
  'SANDBOX_agent.file_edited',
  'SANDBOX_check.completed',
]
