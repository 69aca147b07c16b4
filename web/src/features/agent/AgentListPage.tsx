import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Agent, AgentStatus, Sandbox } from '../../api/types'
import { useFresh } from '../../app/live'
import { Copy } from '../../ui/Copy'
import { More } from '../../ui/More'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { nameOf, oneLine, shortId } from '../../ui/plain'
import { State } from '../../ui/State'
import { Table, type Heading } from '../../ui/Table'
import { Ago } from '../../ui/Time'
import { agentList, heldSandboxes, taskName } from './queries'

const HEADINGS: Heading[] = [
  { label: 'State' },
  { label: 'Agent' },
  { label: 'Works on' },
  { label: 'Heartbeat' },
  { label: 'Heartbeat no.', from: 'md' },
  { label: 'Can do', from: 'lg' },
  { label: 'Registered', from: 'lg' },
]

const CHANGES = {
  eventTypes: ['AGENT_REGISTERED', 'AGENT_STATUS_CHANGED', 'HEARTBEAT_MISSED', 'SANDBOX_ATTACHED', 'SANDBOX_ENDED', 'TASK_ASSIGNED'],
}
const CHARS = 160

/** Agents that run elsewhere and take tasks: how each of them stands, and what it does. */
export function AgentListPage() {
  const list = useInfiniteQuery(agentList())
  const held = useQuery(heldSandboxes())
  useFresh(CHANGES, [['agents'], heldSandboxes().queryKey])
  const agents = list.data?.pages.flatMap((page) => page.items) ?? []
  return (
    <Page title="Agents">
      {list.isPending && <Skeleton rows={4} label="Loading agents" />}
      {list.error && <ErrorPanel error={list.error} onRetry={() => void list.refetch()} />}
      {list.data && agents.length === 0 && (
        <Empty title="No agent is attached.">
          <p>Omoi’s own agents need no entry here. One that you run yourself registers with the API and then claims tasks:</p>
          <Copy text="POST /api/v1/agents" label="Copy the call that registers an agent" className="font-mono text-xs">
            POST /api/v1/agents
          </Copy>
        </Empty>
      )}
      {agents.length > 0 && (
        <Table headings={HEADINGS}>
          {agents.map((agent) => (
            <Row key={agent.id} agent={agent} held={held.data?.items.filter(({ agent_id }) => agent_id === agent.id) ?? []} />
          ))}
        </Table>
      )}
      <More list={list} />
    </Page>
  )
}

const WORDS: Record<AgentStatus, string | undefined> = {
  idle: undefined,
  running: undefined,
  degraded: 'heartbeats are missing',
  failed: 'fell silent; what it held is offered again',
}

function Row({ agent, held }: { agent: Agent; held: readonly Sandbox[] }) {
  const words = WORDS[agent.status]
  return (
    <tr className="border-b border-line align-top hover:bg-raised">
      <td className="px-4 py-1.5">
        <State state={agent.status} />
        {words && <p className="text-xs text-muted">{words}</p>}
      </td>
      <td className="px-2 py-1.5">
        <span className="untrusted font-medium">{oneLine(agent.name, CHARS)}</span>
        <p className="text-xs text-muted">
          <Copy text={agent.id} label={`Copy the id ${agent.id}`} className="font-mono">
            {shortId(agent.id)}
          </Copy>{' '}
          <span className="untrusted">{oneLine(agent.agent_type, CHARS)}</span>
        </p>
      </td>
      <td className="px-2 py-1.5">
        {held.length === 0 ? <span className="text-subtle">nothing</span> : held.map((sandbox) => <Held key={sandbox.id} sandbox={sandbox} />)}
      </td>
      <td className="px-2 py-1.5 text-muted">
        <Ago at={agent.last_heartbeat_at} none="none yet" />
      </td>
      <td className="hidden px-2 py-1.5 text-muted tabular-nums md:table-cell">{agent.heartbeat_sequence}</td>
      <td className="untrusted hidden px-2 py-1.5 text-muted lg:table-cell">
        {agent.capabilities.length > 0 ? nameOf(agent.capabilities.join(', ')) : 'nothing named'}
      </td>
      <td className="hidden px-2 py-1.5 text-muted lg:table-cell">
        <Ago at={agent.created_at} />
      </td>
    </tr>
  )
}

function Held({ sandbox }: { sandbox: Sandbox }) {
  const { data } = useQuery({ ...taskName(sandbox.task_id ?? ''), enabled: Boolean(sandbox.task_id) })
  return (
    <p>
      <Link to="/sandboxes/$id" params={{ id: sandbox.id }} title={sandbox.id} className="untrusted text-accent hover:underline">
        {data ? oneLine(data.title, CHARS) : shortId(sandbox.id)}
      </Link>
    </p>
  )
}
