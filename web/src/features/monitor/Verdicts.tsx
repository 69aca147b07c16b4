import { useQuery } from '@tanstack/react-query'
import { ChevronRight } from 'lucide-react'
import { useState } from 'react'
import type { FindingSeverity, GuardianFinding, Sandbox } from '../../api/types'
import { count, usd } from '../../ui/amount'
import { tokens } from '../../ui/figures'
import { ErrorPanel, Skeleton } from '../../ui/panels'
import { oneLine } from '../../ui/plain'
import { Quiet, Section } from '../../ui/Section'
import { Table, type Heading } from '../../ui/Table'
import { Ago } from '../../ui/Time'
import { Badge } from './Badge'
import { SandboxLink, TaskLink } from './parts'
import { openFindings, sandboxSummary, watchedSandboxes } from './queries'
import { figure, KIND_WORDS, SEVERITY_TONES } from './words'

const WORST: readonly FindingSeverity[] = ['critical', 'warning', 'notice']
const HEADINGS: Heading[] = [{ label: 'Verdict' }, { label: 'Task' }, { label: 'Found', from: 'md' }, { label: 'Sandbox', from: 'md' }, { label: 'Why', isHidden: true }]
const CHARS = 300

export type Verdict = { sandbox: Sandbox; severity: FindingSeverity | undefined; found: GuardianFinding[] }

/** The worst that is open in each, those first that need somebody. */
export function verdicts(sandboxes: readonly Sandbox[], open: readonly GuardianFinding[]): Verdict[] {
  const rank = ({ severity }: Verdict) => (severity ? WORST.indexOf(severity) : WORST.length)
  return sandboxes
    .map((sandbox): Verdict => {
      const found = open.filter((finding) => finding.sandbox_id === sandbox.id)
      return { sandbox, found, severity: WORST.find((one) => found.some((finding) => finding.severity === one)) }
    })
    .toSorted((a, b) => rank(a) - rank(b))
}

/** Every sandbox that lives, by what was found in it. */
export function Verdicts() {
  const sandboxes = useQuery(watchedSandboxes())
  const findings = useQuery(openFindings())
  const error = sandboxes.error ?? findings.error
  const all = sandboxes.data && findings.data ? verdicts(sandboxes.data.items, findings.data) : undefined
  const off = all?.filter(({ severity }) => severity !== undefined).length ?? 0
  return (
    <Section title="Sandboxes by verdict" aside={all && all.length > 0 && <span className="text-muted">{off === 0 ? 'all on course' : `${off} of ${all.length} with findings`}</span>}>
      {error && <ErrorPanel error={error} onRetry={() => [sandboxes, findings].forEach((query) => void query.refetch())} />}
      {!error && !all && <Skeleton rows={3} label="Loading sandboxes" />}
      {all?.length === 0 && <Quiet>No sandbox lives.</Quiet>}
      {all && all.length > 0 && (
        <Table headings={HEADINGS} edge="section">
          {all.map((verdict) => (
            <Row key={verdict.sandbox.id} verdict={verdict} />
          ))}
        </Table>
      )}
    </Section>
  )
}

function Row({ verdict: { sandbox, severity, found } }: { verdict: Verdict }) {
  const [isOpen, setIsOpen] = useState(false)
  return (
    <>
      <tr className="h-8 border-b border-line">
        <td className="px-3">{severity ? <Badge tone={SEVERITY_TONES[severity]}>{severity}</Badge> : <Badge tone="ok">on course</Badge>}</td>
        <td className="min-w-0 px-2">{sandbox.task_id ? <TaskLink id={sandbox.task_id} /> : <span className="text-muted">no task</span>}</td>
        <td className="hidden px-2 text-muted md:table-cell">{found.map(({ kind }) => KIND_WORDS[kind]).join(', ') || 'nothing'}</td>
        <td className="hidden px-2 md:table-cell">
          <SandboxLink id={sandbox.id} event={found.at(0)?.seq} />
        </td>
        <td className="px-3 text-right">
          <button
            type="button"
            aria-expanded={isOpen}
            aria-label="What the verdict is made of"
            onClick={() => setIsOpen(!isOpen)}
            className="inline-flex size-6 cursor-pointer items-center justify-center rounded text-muted hover:bg-raised hover:text-fg"
          >
            <ChevronRight size={14} aria-hidden className={isOpen ? 'rotate-90' : ''} />
          </button>
        </td>
      </tr>
      {isOpen && (
        <tr className="border-b border-line bg-sunken">
          <td colSpan={HEADINGS.length}>
            <Inputs id={sandbox.id} />
          </td>
        </tr>
      )}
    </>
  )
}

/** What the Guardian knows of a sandbox. */
function Inputs({ id }: { id: string }) {
  const summary = useQuery(sandboxSummary(id))
  if (summary.error) return <ErrorPanel error={summary.error} onRetry={() => void summary.refetch()} />
  if (!summary.data) return <Skeleton rows={2} label="Loading what it did" />
  const { goal, focus, alignment, calls_total, files, errors, cost_usd, tokens: used, last_progress_at, said, question } = summary.data
  const facts: [string, React.ReactNode][] = [
    ['Alignment', figure(alignment)],
    ['It is', focus],
    ['Last progress', <Ago key="progress" at={last_progress_at} none="none yet" />],
    ['So far', `${count(calls_total, 'call')}, ${count(files.length, 'file')}, ${count(errors.length, 'kind')} of error`],
    ['Spent', `${usd(cost_usd)}, ${tokens(used)} tokens`],
    ['Goal', oneLine(goal, CHARS)],
    ...(question ? [['It asks', oneLine(question, CHARS)] as [string, string]] : []),
    ...(said ? [['It says', oneLine(said, CHARS)] as [string, string]] : []),
  ]
  return (
    <dl className="grid grid-cols-[7rem_1fr] gap-x-3 gap-y-1 px-3 py-2 text-xs">
      {facts.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-muted">{name}</dt>
          <dd className="untrusted min-w-0">{value}</dd>
        </div>
      ))}
    </dl>
  )
}
