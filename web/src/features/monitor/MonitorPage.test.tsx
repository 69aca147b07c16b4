import { screen, waitFor, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { useState } from 'react'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { session } from '../../api/session'
import type { Role } from '../../api/types'
import { liveEvent } from '../../test/fakes'
import { refused, serve, showPage, type Answer, type Served } from '../../test/page'
import { MonitorPage } from './MonitorPage'
import { asMonitorSearch, type MonitorSearch } from './search'

const AT = '2026-11-16T09:00:00Z'
const intervention = {
  id: 'int-1',
  sandbox_id: 'sbx-1',
  task_id: 'task-1',
  finding_id: 'fnd-1',
  kind: 'repeated_action',
  finding: 'grep was run 5 times',
  do: 'nudge',
  mode: 'suggest',
  text: 'You go in circles.',
  state: 'suggested',
  created_by: 'guardian',
  created_at: AT,
}
const finding = {
  id: 'fnd-1',
  sandbox_id: 'sbx-1',
  task_id: 'task-1',
  kind: 'repeated_action',
  severity: 'warning',
  number: 1,
  seqs: [7, 9],
  seq: 9,
  text: 'grep was run 5 times',
  since: AT,
  found_at: AT,
}
const sides = { a: { task_id: 'task-1', title: 'Mend it' }, b: { task_id: 'task-2', title: 'Break it' } }

let search: MonitorSearch
let served: Served
let more: Answer

function show(tab: MonitorSearch, role?: Role) {
  search = tab
  showPage(Host, role)
}

function Host() {
  const [now, setNow] = useState(search)
  const onSearch = (change: MonitorSearch) => {
    search = asMonitorSearch({ ...search, ...change })
    setNow(search)
  }
  return <MonitorPage search={now} onSearch={onSearch} />
}

beforeEach(() => {
  more = () => undefined
  served = serve((asked) => more(asked) ?? usual(asked.path))
})

afterEach(() => {
  vi.useRealTimers()
  session.end()
})

function usual(path: string): unknown {
  switch (path) {
    case '/guardian/status':
      return {
        running: true,
        last_tick_at: AT,
        steering: 'suggest',
        waiting: 1,
        health: { system: 'good', sandboxes: 3, need_steering: 1, average_alignment: 0.8 },
        effects: { made: 5, changed: 3, unchanged: 1, unknown: 1 },
        open_findings: {},
      }
    case '/conductor/status':
      return { enabled: true, open_conflicts: 1, open_duplicates: 0, projects: [], last_analysis: { at: AT, coherence_score: 0.86, system_status: 'optimal', num_agents: 3 } }
    case '/monitor/dashboard':
      return { recent_anomalies: [], critical_alerts: 0, stale_agents: 0, disk: DISK }
    case '/monitor/metrics':
      return { range: '1h', step_seconds: 30, points: [{ at: AT, queue_depth: 4, events_per_second: 2 }, { at: '2026-11-16T09:00:30Z', queue_depth: 6, events_per_second: 2 }] }
    case '/tasks/task-1':
      return { id: 'task-1', title: 'Mend the discount' }
    case '/projects':
      return { items: [{ id: 'prj-1', name: 'Shop', paused: false }] }
    default:
      return { items: [] }
  }
}

const DISK = { path: '/srv/omoi', state: 'full', free_bytes: 0, total_bytes: 1 << 30, full_below_bytes: 1 << 20, low_below_bytes: 10 * (1 << 30) }

describe('the overview', () => {
  test('says in words what the tiles and lines show', async () => {
    show({})
    expect(await screen.findByText('coherence 0.86')).toBeTruthy()
    expect(screen.getByText(/75 % effective \(3 of 4\), 1 unclear/)).toBeTruthy()
    const queue = await screen.findByRole('figure', { name: /^Tasks in the queue now 6, lowest 4 at .*, highest 6 at/ })
    await userEvent.click(within(queue).getByRole('button', { name: 'As a table' }))
    expect(within(queue).getAllByRole('row')).toHaveLength(3)
    expect(screen.getByRole('figure', { name: /^Events a second 2 all the time/ })).toBeTruthy()
    expect(screen.getByText('No sandbox lives.')).toBeTruthy()
  })

  test('says that the disk is full, and what follows from it', async () => {
    show({})
    expect(await screen.findByText('is full')).toBeTruthy()
    expect(screen.getByText(/free of .* at \/srv\/omoi; nothing is stored until some space is free/)).toBeTruthy()
  })

  test('shows that the disk is full although no event is stored about it', async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true })
    let state = 'ok'
    more = ({ path }) => (path === '/monitor/dashboard' ? { recent_anomalies: [], critical_alerts: 0, stale_agents: 0, disk: { ...DISK, state } } : undefined)
    show({})
    expect(await screen.findByText('coherence 0.86')).toBeTruthy()
    state = 'full'
    await vi.advanceTimersByTimeAsync(30_000)
    expect(await screen.findByText('is full')).toBeTruthy()
  })

  test.each(['SANDBOX_UNKEPT', 'SANDBOX_KEPT', 'SANDBOX_REMOVED'])('asks again after %s', async (event_type) => {
    show({})
    expect(await screen.findByText('is full')).toBeTruthy()
    await waitFor(() => expect(served.isFollowed()).toBe(true))
    more = ({ path }) => (path === '/monitor/dashboard' ? { recent_anomalies: [], critical_alerts: 0, stale_agents: 0, disk: { ...DISK, state: 'low' } } : undefined)
    served.tell(liveEvent(1, { event_type }))
    await waitFor(() => expect(screen.queryByText('is full')).toBeNull())
  })

  test('puts sandboxes first in which something was found, and says what the verdict is made of', async () => {
    const summary = { goal: 'Mend', focus: 'testing', alignment: 0.4, calls_total: 9, files: [], errors: [], cost_usd: 0, tokens: 0, said: '' }
    more = ({ path }) => {
      if (path === '/sandboxes') return { items: [{ id: 'sbx-2', task_id: null }, { id: 'sbx-1', task_id: 'task-1' }] }
      if (path === '/findings') return { items: [finding] }
      return path === '/sandboxes/sbx-1/summary' ? summary : undefined
    }
    show({})
    const rows = await screen.findAllByRole('row', { name: /warning|on course/ })
    expect(rows[0]?.textContent).toContain('goes in circles')
    expect(rows[1]?.textContent).toContain('on course')
    await userEvent.click(within(rows[0] as HTMLElement).getByRole('button', { name: 'What the verdict is made of' }))
    expect(await screen.findByText('testing')).toBeTruthy()
  })

  test('says which part was refused, and goes on with the rest', async () => {
    more = ({ path }) => (path === '/guardian/status' ? refused(403, 'forbidden', 'this needs the role viewer') : undefined)
    show({})
    expect(await screen.findByText(/this needs the role viewer/)).toBeTruthy()
    expect(await screen.findByRole('figure', { name: /^Tasks in the queue/ })).toBeTruthy()
  })
})

describe('findings and interventions', () => {
  test('a suggestion that is told of comes, and is approved', async () => {
    let items: object[] = []
    more = ({ method, path }) => {
      if (path === '/interventions/int-1/approve' && method === 'POST') return (items = [{ ...intervention, state: 'delivered', decided_by: 'ada', decided_at: AT }])[0]
      if (path === '/interventions') return { items }
      return path === '/findings' ? { items: [finding] } : undefined
    }
    show({ tab: 'findings' })
    expect(await screen.findByText('Nothing was said or done about any agent.')).toBeTruthy()
    items = [intervention]
    await waitFor(() => expect(served.isFollowed()).toBe(true))
    served.tell(liveEvent(1, { event_type: 'guardian.intervention.suggested' }))
    await userEvent.click(await screen.findByRole('button', { name: 'Approve' }))
    expect(await screen.findByText('delivered')).toBeTruthy()
    expect(served.changes).toMatchObject([{ path: '/interventions/int-1/approve', body: {} }])
    expect(screen.getAllByRole('link', { name: 'Open at that moment' }).map((link) => link.getAttribute('href'))).toEqual([
      '/sandboxes/sbx-1?event=9',
      '/sandboxes/sbx-1?event=9',
    ])
  })

  test('a suggestion is made in other words, and a refusal is shown', async () => {
    more = ({ method, path }) => {
      if (method === 'POST') return refused(409, 'intervention_decided', 'intervention int-1 waits for nobody')
      return path === '/interventions' ? { items: [intervention] } : undefined
    }
    show({ tab: 'findings' })
    await userEvent.click(await screen.findByRole('button', { name: 'Other words…' }))
    await userEvent.type(screen.getByLabelText('What is said'), ' Stop.')
    await userEvent.click(within(screen.getByRole('dialog')).getByRole('button', { name: 'Approve' }))
    expect(await screen.findByText(/waits for nobody/)).toBeTruthy()
    expect(served.changes[0]?.body).toEqual({ text: 'You go in circles. Stop.' })
  })

  test('somebody who may only look is offered nothing', async () => {
    more = ({ path }) => (path === '/interventions' ? { items: [intervention] } : undefined)
    show({ tab: 'findings' }, 'viewer')
    expect(await screen.findByText('To decide needs the role operator.')).toBeTruthy()
    expect(screen.queryByRole('button', { name: 'Approve' })).toBeNull()
  })
})

test('the radar shows everybody against everybody, where they meet, and what is alike', async () => {
  more = ({ path }) => {
    switch (path) {
      case '/conductor/matrix':
        return { project_id: 'prj-1', at: AT, members: [{ ...sides.a, live: true }, { ...sides.b, live: false }], pairs: [{ a: 0, b: 1, state: 'lines', files: [] }] }
      case '/conductor/conflicts':
        return { items: [{ id: 'c', project_id: 'prj-1', ...sides, kind: 'lines', since: AT, changed_at: AT, told: ['sbx-1'], files: [{ path: 'a.py', lines: [{ first: 3, last: 9 }, { first: 12, last: null }] }] }] }
      case '/conductor/duplicates':
        return { items: [{ id: 'dup-1', project_id: 'prj-1', ...sides, similarity: 0.83, files: ['a.py'], found_at: AT }] }
      default:
        return undefined
    }
  }
  show({ tab: 'radar' })
  const matrix = await screen.findByRole('region', { name: 'Matrix' })
  expect(within(matrix).getAllByText('same lines')).toHaveLength(2)
  expect(await screen.findByText('lines 3–9, 12–end')).toBeTruthy()
  expect(await screen.findByText('83 % alike')).toBeTruthy()
  await userEvent.click(screen.getByRole('button', { name: 'They are not the same' }))
  await waitFor(() => expect(served.changes).toMatchObject([{ path: '/conductor/duplicates/dup-1/dismiss' }]))
})

test('an anomaly is acknowledged', async () => {
  const anomaly = { id: 'ano-1', metric: 'queue_depth', anomaly_type: 'spike', severity: 'critical', value: 40, baseline: 4, deviation: 5.25, description: 'far more wait', detected_at: AT }
  more = ({ path }) => (path === '/monitor/anomalies' ? { items: [anomaly] } : undefined)
  show({ tab: 'anomalies' })
  expect(await screen.findByText('queue depth is high')).toBeTruthy()
  expect(screen.getByText(/40, expected 4; off by 5.25 standard deviations/)).toBeTruthy()
  await userEvent.click(screen.getByRole('button', { name: 'Acknowledge' }))
  await waitFor(() => expect(served.changes).toMatchObject([{ path: '/monitor/anomalies/ano-1/acknowledge' }]))
})

test('of what a diagnosis proposes some is accepted', async () => {
  const proposal = { kind: 'task', description: 'look', priority: 'HIGH', about: 'task-1' }
  const diagnosis = {
    id: 'dia-1',
    project_id: 'prj-1',
    ticket_id: 'tic-1',
    state: 'open',
    number: 1,
    total_tasks: 3,
    completed_tasks: 1,
    failed_tasks: 2,
    root_cause: 'the disk is full',
    hypotheses: [{ statement: 'logs fill it', likelihood: 0.7, tasks: [] }],
    proposals: [{ ...proposal, title: 'Find out why' }, { ...proposal, title: 'Try again' }],
    created_at: AT,
  }
  more = ({ path }) => (path === '/diagnoses' ? { items: [diagnosis] } : undefined)
  show({ tab: 'diagnoses' })
  await userEvent.click(await screen.findByRole('checkbox', { name: 'Find out why' }))
  await userEvent.click(screen.getByRole('button', { name: 'Accept 1 of 2' }))
  await waitFor(() => expect(served.changes).toMatchObject([{ path: '/diagnoses/dia-1/accept', body: { proposals: [1] } }]))
})

test('a policy is refused at its line, and what was typed stays', async () => {
  more = ({ method, path }) => {
    if (method === 'PUT') return refused(422, 'invalid_policy', 'policy text is not as it should be: unknown variant `fly` at line 2, column 9')
    return path === '/projects/prj-1/policy' ? { project_id: 'prj-1', source: 'default', version: 0, steering: 'suggest', text: 'steering: suggest\n' } : undefined
  }
  show({ tab: 'policies' })
  const policy = await screen.findByLabelText<HTMLTextAreaElement>('Policy in YAML')
  expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Save' }).disabled).toBe(true)
  await userEvent.type(policy, 'do: fly')
  await userEvent.click(screen.getByRole('button', { name: 'Save' }))
  await userEvent.click(await screen.findByRole('button', { name: 'Line 2' }))
  expect(policy.value.slice(policy.selectionStart, policy.selectionEnd)).toBe('do: fly')
  expect(served.changes[0]?.body).toEqual({ text: 'steering: suggest\ndo: fly', version: 0 })
})

test('what was done by authority shows before and after, and is taken back', async () => {
  const action = { id: 'act-1', action_type: 'pause', project_id: 'prj-1', entity_type: 'project', target_entity: 'prj-1', reason: 'fire', initiated_by: 'ada', before: { paused: false }, after: { paused: true }, executed_at: AT }
  more = ({ path }) => (path === '/guardian/actions' ? { items: [action] } : undefined)
  show({ tab: 'actions' })
  expect(await screen.findByText('paused: false → true')).toBeTruthy()
  await userEvent.click(screen.getByRole('button', { name: 'Take back' }))
  await waitFor(() => expect(served.changes).toMatchObject([{ path: '/guardian/actions/act-1/revert' }]))
})

describe('an order by authority', () => {
  const tasks = [
    { id: 'task-1', title: 'Mend the discount', status: 'pending', priority: 'MEDIUM' },
    { id: 'task-2', title: 'Write it down', status: 'pending', priority: 'LOW' },
  ]

  async function order(name: string) {
    more = ({ method, path, query }) => {
      if (method === 'POST') return { id: 'act-1' }
      if (path === '/projects') return { items: [{ id: 'prj-1', name: 'Shop', paused: false }, { id: 'prj-2', name: 'Till', paused: false }] }
      return path === '/tasks' ? { items: query.status === 'pending' ? tasks : [] } : undefined
    }
    show({ tab: 'actions', project: 'prj-1' }, 'admin')
    await userEvent.selectOptions(await screen.findByLabelText('Order'), name)
  }

  test('cancels a task, with a reason', async () => {
    await order('Cancel a task')
    await userEvent.selectOptions(await screen.findByLabelText('Task'), 'task-2')
    const button = screen.getByRole<HTMLButtonElement>('button', { name: 'Cancel the task' })
    expect(button.disabled).toBe(true)
    await userEvent.type(screen.getByLabelText('Why'), 'not needed')
    await userEvent.click(button)
    await waitFor(() =>
      expect(served.changes).toMatchObject([{ path: '/guardian/intervention/cancel-task', body: { task_id: 'task-2', reason: 'not needed' } }]),
    )
  })

  test('changes a priority, and to another one only', async () => {
    await order('Change a priority')
    await userEvent.type(await screen.findByLabelText('Why'), 'customers wait')
    const button = screen.getByRole<HTMLButtonElement>('button', { name: 'Change the priority' })
    expect(button.disabled).toBe(true)
    await userEvent.selectOptions(screen.getByLabelText('Priority'), 'critical')
    await userEvent.click(button)
    await waitFor(() =>
      expect(served.changes).toMatchObject([
        { path: '/guardian/intervention/override-priority', body: { task_id: 'task-1', priority: 'CRITICAL', reason: 'customers wait' } },
      ]),
    )
  })

  test('moves places to another project, and says when they are not there', async () => {
    await order('Move places')
    const usually = more
    more = (asked) => (asked.method === 'POST' ? refused(409, 'capacity_missing', 'project Shop has 2 places') : usually(asked))
    await userEvent.clear(await screen.findByLabelText('How many'))
    await userEvent.type(screen.getByLabelText('How many'), '3')
    await userEvent.type(screen.getByLabelText('Why'), 'a release')
    await userEvent.click(screen.getByRole('button', { name: 'Move the places' }))
    expect(await screen.findByText(/project Shop has 2 places/)).toBeTruthy()
    expect(served.changes[0]).toMatchObject({
      path: '/guardian/intervention/reallocate',
      body: { from_project_id: 'prj-1', to_project_id: 'prj-2', capacity: 3, reason: 'a release' },
    })
  })

  test('of moving places is for admins', async () => {
    show({ tab: 'actions', project: 'prj-1' }, 'operator')
    const orders = within(await screen.findByLabelText('Order')).getAllByRole('option')
    expect(orders.map((one) => one.textContent)).toEqual(['Pause or resume', 'Cancel a task', 'Change a priority'])
  })
})
