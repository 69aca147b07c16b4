import { useQuery } from '@tanstack/react-query'
import { useLocation, useNavigate } from '@tanstack/react-router'
import { Bell } from 'lucide-react'
import { useEffect, useRef } from 'react'
import { useActs } from '../../app/acts'
import { useSession } from '../../api/session'
import type { Task } from '../../api/types'
import { useNeedsChange, useRefetch } from '../../app/live'
import { Menu, type MenuItem } from '../../ui/Menu'
import { oneLine } from '../../ui/plain'
import { KINDS, needs, titleOf, type Need } from './Needs'
import { diagnosesOpen, heldTasks, liveSandboxes, suggestions, tasksIn, unkeptSandboxes, waitingSpecs } from './queries'

const SHOWN = 12
const CHARS = 48

/** How many things wait for a person, on every page; pressed, which. */
export function NeedsYou() {
  // Whoever has signed out is on the way to the sign-in, and has nothing to ask for.
  return useSession() && <Waiting />
}

function Waiting() {
  const live = useQuery(liveSandboxes())
  const held = useQuery(heldTasks())
  const failed = useQuery(tasksIn('failed'))
  const pending = useQuery(tasksIn('pending'))
  const gates = useQuery(waitingSpecs())
  const suggested = useQuery(suggestions())
  const diagnoses = useQuery(diagnosesOpen())
  const unkept = useQuery(unkeptSandboxes())
  const [acts, hear] = useActs((live.data?.items ?? []).map(({ id }) => id))
  const refetch = useRefetch(['tasks', 'home'], ['sandboxes', 'home', 'live'], ['sandboxes', 'home', 'unkept'], ['specs', 'home'], ['supervision', 'needs'])
  useNeedsChange((event) => {
    if (event === 'connected' || !hear(event)) refetch()
  })
  // A page that follows one thing alone does not hear of the others.
  const { pathname } = useLocation()
  const seen = useRef(pathname)
  useEffect(() => {
    if (seen.current !== pathname) refetch()
    seen.current = pathname
  }, [pathname, refetch])
  const navigate = useNavigate()

  const supervised = { suggestions: suggested.data?.items ?? [], diagnoses: diagnoses.data?.items ?? [] }
  const tasks = [held, pending, failed].map((query) => query.data?.items ?? []) as [Task[], Task[], Task[]]
  const items = needs(...tasks, acts, gates.data?.items ?? [], supervised, unkept.data?.items ?? [])
  if (items.length === 0) return null
  const go = (need: Need) => {
    switch (need.kind) {
      case 'gate':
        return void navigate({ to: '/specs/$id', params: { id: need.spec.id }, search: { phase: need.spec.current_phase } })
      case 'suggestion':
        return void navigate({ to: '/monitor', search: { tab: 'findings' } })
      case 'diagnosis':
        return void navigate({ to: '/monitor', search: { tab: 'diagnoses' } })
      case 'unkept':
        return void navigate({ to: '/sandboxes/$id', params: { id: need.sandbox.id } })
      default:
        return void navigate({ to: '/tasks/$id', params: { id: need.task.id } })
    }
  }
  const rows: MenuItem[] = items.slice(0, SHOWN).map((need) => ({
    label: `${oneLine(titleOf(need), CHARS)}: ${KINDS[need.kind][2]}`,
    onChoose: () => go(need),
  }))
  return (
    <Menu
      label="What needs you"
      items={[...rows, { label: 'All of it, on Home', onChoose: () => void navigate({ to: '/' }) }]}
      className="inline-flex min-h-7 cursor-pointer items-center gap-1.5 rounded bg-warn-soft px-2 text-xs font-medium whitespace-nowrap text-warn tabular-nums hover:underline"
    >
      <Bell size={14} aria-hidden />
      {items.length}
      <span className="sr-only md:not-sr-only">{items.length === 1 ? 'needs you' : 'need you'}</span>
    </Menu>
  )
}
