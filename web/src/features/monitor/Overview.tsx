import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Disk, MetricPoint, MetricRange } from '../../api/types'
import { count } from '../../ui/amount'
import { Chart, type Point } from '../../ui/Chart'
import { Chips } from '../../ui/Chips'
import { bytes } from '../../ui/figures'
import { ErrorPanel, Skeleton } from '../../ui/panels'
import { Section } from '../../ui/Section'
import { Ago } from '../../ui/Time'
import { duration } from '../../ui/time'
import { analyses, conductorStatus, dashboard, guardianStatus, metrics } from './queries'
import type { TabProps } from './MonitorPage'
import { RANGES, type Tab } from './search'
import { Verdicts } from './Verdicts'
import { figure } from './words'

const RANGE_WORDS: Record<MetricRange, string> = { '1h': 'hour', '24h': '24 hours', '7d': '7 days' }
const RANGE_MS: Record<MetricRange, number> = { '1h': 3_600_000, '24h': 86_400_000, '7d': 604_800_000 }
/** Below it the Conductor warns. */
const COHERENCE_LOW = 0.5
/** Three heartbeats that did not come. */
const SILENT_S = 90

/** Everything at a glance. */
export function Overview({ search, onSearch }: TabProps) {
  return (
    <>
      <Tiles />
      <Charts range={search.range ?? '1h'} onRange={(range) => onSearch({ range })} />
      <Verdicts />
    </>
  )
}

function Tiles() {
  const guardian = useQuery(guardianStatus())
  const conductor = useQuery(conductorStatus())
  const board = useQuery(dashboard())
  const all = [guardian, conductor, board]
  const error = all.find((query) => query.error)?.error
  if (error) return <ErrorPanel error={error} onRetry={() => all.forEach((query) => void query.refetch())} />
  if (!guardian.data || !conductor.data || !board.data) return <Skeleton rows={3} label="Loading how it goes" />
  const { health, effects, waiting } = guardian.data
  const look = conductor.data.last_analysis
  const open = board.data.recent_anomalies.length
  return (
    <ul className="grid grid-cols-1 gap-2 sm:grid-cols-2 lg:grid-cols-4">
      <Tile
        name="Guardian"
        value={guardian.data.running ? `watches ${health.sandboxes}` : 'does not run'}
        isBad={!guardian.data.running}
        to="findings"
      >
        {guardian.data.last_tick_at && (
          <>
            last look <Ago at={guardian.data.last_tick_at} />;{' '}
          </>
        )}
        {health.need_steering > 0 ? `${health.need_steering} off course` : 'none off course'}, alignment {figure(health.average_alignment)}; steering {guardian.data.steering}
      </Tile>
      <Tile
        name="Conductor"
        value={!conductor.data.enabled ? 'is off' : look ? `coherence ${figure(look.coherence_score)}` : 'no look yet'}
        isBad={look?.system_status === 'critical' || look?.system_status === 'warning'}
        to="radar"
      >
        {look && `${look.system_status.replaceAll('_', ' ')}; `}
        {count(conductor.data.open_conflicts, 'conflict')}, {count(conductor.data.open_duplicates, 'duplicate')}
      </Tile>
      <Tile name="Open anomalies" value={String(open)} isBad={board.data.critical_alerts > 0 || (board.data.unkept_sandboxes ?? 0) > 0} to="anomalies">
        {board.data.critical_alerts > 0 ? `${board.data.critical_alerts} of them critical` : 'none critical'};{' '}
        {count(board.data.stale_agents, 'agent')} not heard of
        {(board.data.unkept_sandboxes ?? 0) > 0 && `; the work of ${count(board.data.unkept_sandboxes ?? 0, 'sandbox', 'sandboxes')} is not kept`}
      </Tile>
      <Tile name="Interventions, 24 hours" value={String(effects.made)} isBad={false} to="findings">
        {effective(effects)}
        {waiting > 0 && `; ${count(waiting, 'suggestion')} to decide`}
      </Tile>
      {board.data.disk && <DiskTile disk={board.data.disk} />}
    </ul>
  )
}

const DISK_WORDS: Record<Disk['state'], string> = { ok: 'has room', low: 'is low', full: 'is full' }

/** The fullest disk that holds the server's data. */
function DiskTile({ disk }: { disk: Disk }) {
  return (
    <Tile name="Disk" value={DISK_WORDS[disk.state]} isBad={disk.state !== 'ok'}>
      {bytes(disk.free_bytes)} free of {bytes(disk.total_bytes)} at {disk.path}
      {disk.state === 'full' && '; nothing is stored until some space is free'}
    </Tile>
  )
}

/** The share of those whose effect is known. */
export function effective({ changed, unchanged, unknown }: { changed: number; unchanged: number; unknown: number }): string {
  const known = changed + unchanged
  const share = known === 0 ? 'no effect known yet' : `${Math.round((100 * changed) / known)} % effective (${changed} of ${known})`
  return unknown > 0 ? `${share}, ${unknown} unclear` : share
}

type TileProps = { name: string; value: string; isBad: boolean; to?: Tab; children: ReactNode }

function Tile({ name, value, isBad, to, children }: TileProps) {
  return (
    <li className="flex flex-col rounded-lg border border-line bg-surface px-3 py-2">
      {to ? (
        <Link to="/monitor" search={{ tab: to }} className="self-start text-xs text-muted hover:text-accent hover:underline">
          {name}
        </Link>
      ) : (
        <span className="self-start text-xs text-muted">{name}</span>
      )}
      <span className={`text-lg font-semibold tabular-nums ${isBad ? 'text-bad' : ''}`}>{value}</span>
      <span className="text-xs text-muted tabular-nums">{children}</span>
    </li>
  )
}

function Charts({ range, onRange }: { range: MetricRange; onRange: (range: MetricRange) => void }) {
  const series = useQuery(metrics(range))
  const looks = useQuery(analyses())
  const error = series.error ?? looks.error
  const retry = () => [series, looks].forEach((query) => void query.refetch())
  return (
    <Section
      title="Over time"
      aside={<Chips label="How far back" chips={RANGES.map((id) => ({ id, label: RANGE_WORDS[id] }))} chosen={range} onChoose={onRange} />}
    >
      {error && <ErrorPanel error={error} onRetry={retry} />}
      {!error && (!series.data || !looks.data) && <Skeleton rows={4} label="Loading figures" />}
      {series.data && looks.data && (
        <div className="grid gap-x-8 gap-y-4 p-3 lg:grid-cols-2">
          <Chart
            title="Coherence"
            points={coherence(looks.data, range)}
            top={1}
            isFixed
            threshold={{ at: COHERENCE_LOW, words: 'a warning below it' }}
            show={figure}
            none="Nothing was under way."
          />
          <Chart title="Tasks in the queue" points={pointsOf(series.data.points, 'queue_depth')} top={10} show={figure} none="Nothing measured yet." />
          <Chart title="Events a second" points={pointsOf(series.data.points, 'events_per_second')} top={10} show={figure} none="Nothing measured yet." />
          <Chart
            title="Oldest heartbeat"
            points={pointsOf(series.data.points, 'heartbeat_age_seconds')}
            top={100}
            threshold={{ at: SILENT_S, words: 'three heartbeats missed' }}
            show={(seconds) => (seconds === 0 ? '0 s' : duration(seconds * 1000))}
            none="No sandbox lived."
          />
        </div>
      )}
    </Section>
  )
}

type Look = { at: string; coherence_score: number; num_agents: number }

/** Oldest first. Where nothing was under way nothing could be out of step. */
function coherence(looks: readonly Look[], range: MetricRange): Point[] {
  const newest = Date.parse(looks[0]?.at ?? '') || 0
  return looks
    .filter(({ at, num_agents }) => num_agents > 0 && newest - Date.parse(at) <= RANGE_MS[range])
    .map(({ at, coherence_score }) => ({ at, value: coherence_score }))
    .toReversed()
}

type Figure = 'queue_depth' | 'events_per_second' | 'heartbeat_age_seconds'

function pointsOf(points: readonly MetricPoint[], name: Figure): Point[] {
  return points.flatMap((point) => {
    const value = point[name]
    return typeof value === 'number' ? [{ at: point.at, value }] : []
  })
}
