import { useInfiniteQuery } from '@tanstack/react-query'
import { asProblem } from '../../api/problem'
import type { Anomaly } from '../../api/types'
import { Button } from '../../ui/Button'
import { ErrorPanel } from '../../ui/panels'
import { nameOf, plain } from '../../ui/plain'
import { Section } from '../../ui/Section'
import { Ago } from '../../ui/Time'
import { Badge } from './Badge'
import type { TabProps } from './MonitorPage'
import { List, Over, SandboxLink, useDeed, useMayAct } from './parts'
import { acknowledge, anomalyList } from './queries'
import { figure, SEVERITY_TONES } from './words'

/** What is far from what is usual. */
export function Anomalies({ search: { all }, onSearch }: TabProps) {
  const anomalies = useInfiniteQuery(anomalyList(Boolean(all)))
  return (
    <Section
      title="Anomalies, newest first"
      aside={
        <Over isOn={Boolean(all)} onChange={(isOn) => onSearch({ all: isOn ? true : undefined })}>
          also those that somebody has seen
        </Over>
      }
    >
      <List list={anomalies} label="anomalies" empty={all ? 'Nothing was ever unusual.' : 'Nothing unusual that nobody has seen.'}>
        {(items) => (
          <ul>
            {items.map((anomaly) => (
              <Row key={anomaly.id} anomaly={anomaly} />
            ))}
          </ul>
        )}
      </List>
    </Section>
  )
}

function Row({ anomaly }: { anomaly: Anomaly }) {
  const { id, severity, metric, anomaly_type, value, baseline, deviation, description, detected_at, sandbox_id, subject } = anomaly
  const mayAct = useMayAct()
  const seeing = useDeed(() => acknowledge(id))
  return (
    <li className="flex flex-col gap-1 border-b border-line px-3 py-2 last:border-b-0">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-0.5">
        <Badge tone={anomaly.acknowledged_at ? 'muted' : SEVERITY_TONES[severity]}>{severity}</Badge>
        <span className="untrusted font-medium">
          {nameOf(metric).replaceAll('_', ' ')} {anomaly_type === 'spike' ? 'is high' : 'is low'}
        </span>
        {subject && <span className="untrusted text-muted">{nameOf(subject)}</span>}
        <span className="ml-auto text-xs text-muted">
          <Ago at={detected_at} />
        </span>
      </div>
      <p className="untrusted">{plain(description)}</p>
      <div className="flex flex-wrap items-center gap-x-3 text-xs text-muted tabular-nums">
        <span>
          {figure(value)}, expected {figure(baseline)}; off by {figure(deviation)} {sandbox_id ? 'thresholds' : 'standard deviations'}
        </span>
        {sandbox_id && <SandboxLink id={sandbox_id}>Open the sandbox</SandboxLink>}
        {anomaly.acknowledged_at ? (
          <span className="untrusted">
            seen by {nameOf(anomaly.acknowledged_by ?? 'somebody')} <Ago at={anomaly.acknowledged_at} />
          </span>
        ) : (
          mayAct && (
            <Button disabled={seeing.isPending} onClick={() => seeing.mutate(undefined)}>
              {seeing.isPending ? 'Acknowledging…' : 'Acknowledge'}
            </Button>
          )
        )}
      </div>
      {seeing.error && <ErrorPanel error={asProblem(seeing.error)} />}
    </li>
  )
}
