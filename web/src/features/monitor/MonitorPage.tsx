import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useKeys } from '../../app/keys'
import { useLive, useRefetch } from '../../app/live'
import { SUPERVISION_CHANGES } from '../../live/changes'
import { Page } from '../../ui/Page'
import { Tabs } from '../../ui/Tabs'
import { anomaliesOpen, diagnosesOpen, suggestions } from '../home/queries'
import { HEARTBEATS } from '../sandbox/queries'
import { Actions } from './Actions'
import { Anomalies } from './Anomalies'
import { Diagnoses } from './Diagnoses'
import { Findings } from './Findings'
import { Overview } from './Overview'
import { Policies } from './Policies'
import { FIGURES_MS, projectNames } from './queries'
import { Radar } from './Radar'
import { TABS, type MonitorSearch, type Tab } from './search'
import { isBeat } from './words'

const CHANGES = {
  eventTypes: [...SUPERVISION_CHANGES, ...HEARTBEATS, 'SANDBOX_SPAWNED', 'SANDBOX_ATTACHED', 'SANDBOX_FAILED', 'SANDBOX_ENDED', 'SANDBOX_UNKEPT', 'SANDBOX_KEPT', 'SANDBOX_REMOVED', 'PROJECT_CREATED', 'PROJECT_UPDATED'],
}
const LABELS: Record<Tab, string> = {
  overview: 'Overview',
  findings: 'Findings and interventions',
  radar: 'Radar',
  anomalies: 'Anomalies',
  diagnoses: 'Diagnoses',
  policies: 'Policies',
  actions: 'Actions',
}

export type TabProps = { search: MonitorSearch; onSearch: (change: MonitorSearch) => void }

/** Whether all that runs goes well, what was found and done about it, and by which rules. */
export function MonitorPage({ search, onSearch }: TabProps) {
  const tab = search.tab ?? 'overview'
  useMonitorStream()
  const waiting = useQuery(suggestions())
  const anomalies = useQuery(anomaliesOpen())
  const diagnoses = useQuery(diagnosesOpen())
  const counts: Partial<Record<Tab, number | undefined>> = {
    findings: waiting.data?.items.length,
    anomalies: anomalies.data?.items.length,
    diagnoses: diagnoses.data?.items.length,
  }
  const choose = (chosen: Tab) => onSearch({ tab: chosen, all: undefined })
  useKeys(Object.fromEntries(TABS.map((one, n) => [String(n + 1), () => choose(one)])))
  const projects = useQuery(projectNames())
  // Some parts are of one project: without a choice, of the first.
  const project = search.project ?? projects.data?.items[0]?.id
  const props = { search, onSearch }
  return (
    <Page title="Monitor">
      <Tabs
        label="Parts of the monitor"
        tabs={TABS.map((id) => ({ id, label: counts[id] ? `${LABELS[id]} ${counts[id]}` : LABELS[id] }))}
        chosen={tab}
        onChoose={choose}
      >
        <div className="flex flex-col gap-4 p-4">
          {tab === 'overview' && <Overview {...props} />}
          {tab === 'findings' && <Findings {...props} />}
          {tab === 'radar' && <Radar {...props} project={project} />}
          {tab === 'anomalies' && <Anomalies {...props} />}
          {tab === 'diagnoses' && <Diagnoses {...props} />}
          {tab === 'policies' && <Policies {...props} project={project} />}
          {tab === 'actions' && <Actions {...props} project={project} />}
        </div>
      </Tabs>
    </Page>
  )
}

/** Asks for everything shown again when something of it has changed; for figures, when there may be new ones. */
function useMonitorStream() {
  const queries = useQueryClient()
  const refetch = useRefetch(['supervision'], ['projects'])
  useLive(CHANGES, (event) => {
    if (event === 'connected' || !isBeat(event)) refetch()
    void queries.invalidateQueries({ queryKey: ['figures'], predicate: isDue })
  })
}

function isDue({ state }: { state: { dataUpdatedAt: number } }): boolean {
  return Date.now() - state.dataUpdatedAt >= FIGURES_MS
}
