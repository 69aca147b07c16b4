import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { LiveEvent, Sandbox } from '../../api/types'
import { useActs } from '../../app/acts'
import { useLive, useRefetch } from '../../app/live'
import { NEED_CHANGES } from '../../live/changes'
import { TELLING } from '../../live/doing'
import { count, usd } from '../../ui/amount'
import { Page } from '../../ui/Page'
import { ErrorPanel, Skeleton } from '../../ui/panels'
import { Reported } from '../../ui/Reported'
import { Quiet, Section } from '../../ui/Section'
import { Begin } from './Begin'
import { anyProject, costsSince, diagnosesOpen, heldTasks, liveSandboxes, suggestions, tasksIn, unkeptSandboxes, waitingSpecs, wrongSandboxes } from './queries'
import { Completed, Running, Wrong } from './rows'
import { needs, Needs } from './Needs'

const COUNTED = 'SANDBOX_model.call'
/** What changes one of the lists. The rest of what agents report is for the page of one sandbox. */
const CHANGES = {
  eventTypes: [
    ...TELLING.map((type) => `SANDBOX_${type}`),
    COUNTED,
    'SANDBOX_ATTACHED',
    'SANDBOX_SPAWNED',
    'SANDBOX_FAILED',
    'SANDBOX_ENDED',
    'SANDBOX_RETURNED',
    ...NEED_CHANGES,
    'PROJECT_CREATED',
  ],
}

export function HomePage() {
  const [today] = useState(startOfDay)
  const live = useQuery(liveSandboxes())
  const held = useQuery(heldTasks())
  const failed = useQuery(tasksIn('failed'))
  const pending = useQuery(tasksIn('pending'))
  const completed = useQuery(tasksIn('completed'))
  const wrong = useQuery(wrongSandboxes())
  const gates = useQuery(waitingSpecs())
  const suggested = useQuery(suggestions())
  const diagnoses = useQuery(diagnosesOpen())
  const unkept = useQuery(unkeptSandboxes())
  const costs = useQuery(costsSince(today))
  const projects = useQuery(anyProject())
  const [acts, hear] = useActs((live.data?.items ?? []).map(({ id }) => id))
  useHomeStream(hear)

  const all = [live, held, failed, pending, completed, wrong, gates, suggested, diagnoses, unkept]
  const error = all.find((query) => query.error)?.error
  const retry = () => all.forEach((query) => void query.refetch())
  const tasks = held.data?.items ?? []
  const supervised = { suggestions: suggested.data?.items ?? [], diagnoses: diagnoses.data?.items ?? [] }
  const [pended, fell] = [pending.data?.items ?? [], failed.data?.items ?? []]
  const waiting = needs(tasks, pended, fell, acts, gates.data?.items ?? [], supervised, unkept.data?.items ?? [])
  const isEmpty = [live, failed, pending, completed].every((query) => query.data?.items.length === 0)

  return (
    <Page
      title="Home"
      aside={
        costs.data && (
          <p className="text-muted tabular-nums">
            {usd(costs.data.cost_usd)} today, {count(costs.data.calls, 'model call')} <Reported cost={costs.data.reported_cost} beside={costs.data.cost_usd} />
          </p>
        )
      }
    >
      {error && <ErrorPanel error={error} onRetry={retry} />}
      {!error && all.some((query) => query.isPending) && <Skeleton rows={8} label="Loading what runs" />}
      {isEmpty && projects.data && <Begin hasProject={projects.data.items.length > 0} />}
      {live.data && !isEmpty && (
        <div className="grid gap-4 p-4 lg:grid-cols-2">
          <Section title="Waits for you" aside={<Count n={waiting.length} />} className="lg:col-span-2">
            <Needs items={waiting} hasMore={Boolean(failed.data?.next)} />
          </Section>
          <Section title="Running" aside={<Count n={live.data.items.length} />} className="lg:col-span-2">
            {live.data.items.length === 0 ? (
              <Quiet>
                Nothing runs.{' '}
                <Link to="/sandboxes/new" className="text-accent underline">
                  Start a task
                </Link>
              </Quiet>
            ) : (
              <Running sandboxes={live.data.items} taskOf={(sandbox) => titleOf(sandbox, tasks)} acts={acts} />
            )}
          </Section>
          <Section title="Went wrong lately">
            {wrong.data?.length ? <Wrong sandboxes={wrong.data} /> : <Quiet>Nothing went wrong.</Quiet>}
          </Section>
          <Section title="Completed lately">
            {completed.data?.items.length ? <Completed tasks={completed.data.items} /> : <Quiet>Nothing yet.</Quiet>}
          </Section>
        </div>
      )}
    </Page>
  )
}

/** Tells what sandboxes do as they do it, and asks for lists again when something in them has changed. */
function useHomeStream(hear: (event: LiveEvent) => boolean) {
  const queries = useQueryClient()
  const refetchLists = useRefetch(['sandboxes'], ['tasks'], ['projects'], ['specs'], ['supervision'])
  const refetchCosts = useRefetch(['costs'])
  useLive(CHANGES, (event) => {
    if (event === 'connected') {
      void queries.invalidateQueries({ queryKey: ['doing'] })
      refetchLists()
      refetchCosts()
      return
    }
    const isAct = hear(event)
    if (event.event_type === COUNTED) refetchCosts()
    else if (!isAct || CHANGES_LISTS.includes(event.event_type)) refetchLists()
  })
}

/** A sandbox is a running one from its first word on. */
const CHANGES_LISTS = ['SANDBOX_agent.started', 'SANDBOX_agent.completed']

function titleOf(sandbox: Sandbox, tasks: { sandbox_id?: string | null; title: string }[]): string | undefined {
  return tasks.find((task) => task.sandbox_id === sandbox.id)?.title
}

function startOfDay(): string {
  const day = new Date()
  day.setHours(0, 0, 0, 0)
  return day.toISOString()
}

function Count({ n }: { n: number }) {
  return n > 0 ? <span className="text-muted tabular-nums">{n}</span> : null
}
