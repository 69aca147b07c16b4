import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { Problem } from '../../../api/problem'
import { useFresh } from '../../../app/live'
import { endedWords } from '../../../parts/ended'
import { count, usd } from '../../../ui/amount'
import { tokens } from '../../../ui/figures'
import { Page } from '../../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../../ui/panels'
import { nameOf, oneLine, shortId } from '../../../ui/plain'
import { Quiet, Section } from '../../../ui/Section'
import { State } from '../../../ui/State'
import { duration } from '../../../ui/time'
import { Counts } from '../../../ui/Counts'
import { sandboxCosts, sandboxOne, sandboxTask } from '../queries'
import { firstDifference, more, pairsOf, sideOf, type Difference, type Run, type Side, type Step } from './compare'
import { allEvents, EVENTS_MAX } from './queries'
import { Row, Table } from './Table'

const WORDS_CHARS = 300

/** Two attempts side by side. */
export function ComparePage({ a, b }: { a: string | undefined; b: string | undefined }) {
  if (!a || !b) {
    return (
      <Page title="Compare">
        <Empty title="Two attempts are needed to compare them.">
          <p>Choose two on the page of a task that was tried more than once.</p>
          <Link to="/board" className="text-accent underline">
            Board
          </Link>
        </Empty>
      </Page>
    )
  }
  return <Both key={`${a} ${b}`} a={a} b={b} />
}

function Both({ a, b }: { a: string; b: string }) {
  const [one, two] = [useRun(a), useRun(b)]
  useCompareStream(a, b)
  const error = one.error ?? two.error
  const title = one.run?.task?.title ?? two.run?.task?.title
  return (
    <Page title="Compare" aside={title !== undefined && <span className="untrusted text-muted">{oneLine(title, 120)}</span>}>
      {error instanceof Problem && [404, 422].includes(error.status) ? (
        <Empty title={`There is no sandbox ${oneLine(one.error ? a : b, 80)}.`}>
          <Link to="/sandboxes" className="text-accent underline">
            All sandboxes
          </Link>
        </Empty>
      ) : (
        error && <ErrorPanel error={error} onRetry={() => [one, two].forEach(({ retry }) => retry())} />
      )}
      {!error && !(one.run && two.run) && <Skeleton rows={8} label="Loading both attempts" />}
      {one.run && two.run && <Comparison a={one.run} b={two.run} isWhole={one.isWhole && two.isWhole} />}
    </Page>
  )
}

function useRun(id: string) {
  const sandbox = useQuery(sandboxOne(id))
  const task = useQuery(sandboxTask(id))
  const costs = useQuery(sandboxCosts(id))
  const events = useQuery(allEvents(id))
  const all = [sandbox, task, costs, events]
  const run = useMemo((): Run | undefined => {
    if (!sandbox.data || task.data === undefined || !events.data) return undefined
    return { sandbox: sandbox.data, task: task.data, costs: costs.data?.totals, events: events.data.events }
  }, [sandbox.data, task.data, costs.data, events.data])
  return {
    run,
    isWhole: events.data?.isWhole ?? true,
    error: all.find((query) => query.error)?.error,
    retry: () => all.forEach((query) => query.error && void query.refetch()),
  }
}

/** One of them may still be at work. */
function useCompareStream(a: string, b: string) {
  const filter = useMemo(() => ({ entityIds: [a, b] }), [a, b])
  const keys = [a, b].map((id) => ['sandbox', id])
  useFresh(filter, keys, (event) => !event.event_type.endsWith('heartbeat'))
}

function Comparison({ a, b, isWhole }: { a: Run; b: Run; isWhole: boolean }) {
  const left = useMemo(() => sideOf(a), [a])
  const right = useMemo(() => sideOf(b), [b])
  const isOther = a.sandbox.task_id !== b.sandbox.task_id
  return (
    <div className="flex flex-col gap-4 p-4">
      {isOther && <p className="rounded-lg bg-warn-soft px-3 py-2 text-warn">These are attempts at two different tasks.</p>}
      {!isWhole && <p className="rounded-lg bg-warn-soft px-3 py-2 text-warn">Only the newest {EVENTS_MAX} events of each are counted.</p>}
      <Section title="How they went">
        <Figures a={a} b={b} left={left} right={right} />
      </Section>
      <Section title="Where they part">
        <Parting difference={firstDifference(left, right)} a={a} b={b} />
      </Section>
      <Section title="Files">
        <Files left={left} right={right} />
      </Section>
      <div className="grid gap-4 lg:grid-cols-2">
        <Section title="Checks">
          <Checks left={left} right={right} />
        </Section>
        <Section title="Tools used">
          <Tools left={left} right={right} />
        </Section>
      </div>
    </div>
  )
}

type Sides = { left: Side; right: Side }

function Figures({ a, b, left, right }: Sides & { a: Run; b: Run }) {
  return (
    <Table heads={[<Name key="a" run={a} />, <Name key="b" run={b} />, 'Difference']}>
      <Row name="State" a={<State state={a.sandbox.status} />} b={<State state={b.sandbox.status} />} />
      <Row name="Outcome" a={<Words text={left.outcome} />} b={<Words text={right.outcome} />} />
      <Row name="Why it ended" a={<Words text={why(a)} />} b={<Words text={why(b)} />} />
      <Row name="Proof" a={<Words text={left.verification} />} b={<Words text={right.verification} />} />
      <Amounts name="Turns" a={left.turns} b={right.turns} />
      <Amounts name="Tokens in" a={inTokens(a)} b={inTokens(b)} words={tokens} />
      <Amounts name="Tokens out" a={a.costs?.output_tokens} b={b.costs?.output_tokens} words={tokens} />
      <Amounts name="Cost" a={a.sandbox.cost_usd} b={b.sandbox.cost_usd} words={usd} />
      <Amounts name="Took" a={left.durationMs} b={right.durationMs} words={duration} />
      <Amounts name="Files changed" a={left.files.length} b={right.files.length} />
      <Row
        name="Lines"
        a={<Counts added={left.added} removed={left.removed} />}
        b={<Counts added={right.added} removed={right.removed} />}
        difference={[more(left.added, right.added, String), more(left.removed, right.removed, String)].filter(Boolean).join(', ')}
      />
      <Amounts name="Events" a={a.events.length} b={b.events.length} />
    </Table>
  )
}

function inTokens({ costs }: Run): number | undefined {
  return costs && costs.input_tokens + costs.cache_read_tokens + costs.cache_write_tokens
}

type AmountProps = { name: string; a: number | undefined; b: number | undefined; words?: (n: number) => string }

function Amounts({ name, a, b, words = String }: AmountProps) {
  const [left, right] = [a, b].map((value) => (value === undefined ? '–' : words(value)))
  return <Row name={name} a={left} b={right} difference={more(a, b, words)} />
}

function why({ sandbox: { end_reason, place_error } }: Run): string | undefined {
  return [end_reason && endedWords(end_reason), place_error].filter(Boolean).join(': ') || undefined
}

function Name({ run: { sandbox } }: { run: Run }) {
  return (
    <Link
      to="/sandboxes/$id"
      params={{ id: sandbox.id }}
      title={sandbox.id}
      className="inline-flex min-h-6 items-center font-mono text-xs text-accent hover:underline"
    >
      {shortId(sandbox.id)}
    </Link>
  )
}

function Words({ text }: { text: string | undefined }) {
  return text === undefined ? <span className="text-subtle">–</span> : <span className="untrusted">{oneLine(text, WORDS_CHARS)}</span>
}

function Parting({ difference, a, b }: { difference: Difference | undefined; a: Run; b: Run }) {
  if (!difference) return <Quiet>Both did the same steps, from the first to the last.</Quiet>
  return (
    <div className="flex flex-col gap-1 px-3 py-2">
      <p>{difference.after === 0 ? 'From the first step on.' : `After ${count(difference.after, 'step')} of the same kinds.`}</p>
      <Next run={a} step={difference.a} />
      <Next run={b} step={difference.b} />
    </div>
  )
}

function Next({ run: { sandbox }, step }: { run: Run; step: Step | undefined }) {
  return (
    <p className="flex flex-wrap items-center gap-x-2">
      <span className="font-mono text-xs text-muted">{shortId(sandbox.id)}</span>
      {step ? (
        <Link
          to="/sandboxes/$id"
          params={{ id: sandbox.id }}
          search={{ event: step.seq }}
          className="untrusted inline-flex min-h-6 items-center font-mono text-xs text-accent hover:underline"
        >
          {nameOf(step.kind)}
        </Link>
      ) : (
        <span className="text-muted">had come to its end</span>
      )}
    </p>
  )
}

function byPath({ files }: Side) {
  return new Map(files.map((file) => [file.path, file]))
}

function Files({ left, right }: Sides) {
  const pairs = pairsOf(byPath(left), byPath(right))
  if (pairs.length === 0) return <Quiet>Neither changed a file.</Quiet>
  return (
    <Table heads={['First', 'Second']}>
      {pairs.map(({ name, a, b }) => (
        <Row
          key={name}
          name={<span className="font-mono text-xs break-all">{nameOf(name)}</span>}
          a={a ? <Counts added={a.added} removed={a.removed} /> : <Not words="not changed" />}
          b={b ? <Counts added={b.added} removed={b.removed} /> : <Not words="not changed" />}
        />
      ))}
    </Table>
  )
}

function byName({ checks }: Side) {
  return new Map(checks.map(({ name, passed }) => [name, passed]))
}

function Checks({ left, right }: Sides) {
  const pairs = pairsOf(byName(left), byName(right))
  if (pairs.length === 0) return <Quiet>No check ran in either.</Quiet>
  return (
    <Table heads={['First', 'Second']}>
      {pairs.map(({ name, a, b }) => (
        <Row key={name} name={<span className="untrusted">{oneLine(name, 80)}</span>} a={<Passed is={a} />} b={<Passed is={b} />} />
      ))}
    </Table>
  )
}

function Passed({ is }: { is: boolean | undefined }) {
  if (is === undefined) return <Not words="did not run" />
  return <span className={is ? 'text-ok' : 'text-bad'}>{is ? 'passed' : 'failed'}</span>
}

function Tools({ left, right }: Sides) {
  const pairs = pairsOf(left.tools, right.tools)
  if (pairs.length === 0) return <Quiet>Neither used a tool.</Quiet>
  return (
    <Table heads={['First', 'Second', 'Difference']}>
      {pairs.map(({ name, a = 0, b = 0 }) => (
        <Row key={name} name={<span className="untrusted font-mono text-xs">{oneLine(name, 60)}</span>} a={a} b={b} difference={more(a, b, String)} />
      ))}
    </Table>
  )
}

function Not({ words }: { words: string }) {
  return <span className="text-subtle">{words}</span>
}
