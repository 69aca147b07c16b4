import { useId, useState } from 'react'
import { Table } from './Table'
import { clock, whole } from './time'

export type Point = { at: string; value: number }

type Props = {
  title: string
  points: readonly Point[]
  /** The scale ends here at least; beyond it, at the next round number. */
  top: number
  /** The scale never ends elsewhere. */
  isFixed?: boolean
  threshold?: { at: number; words: string }
  show: (value: number) => string
  none: string
}

const [WIDTH, HEIGHT] = [600, 120]

/** A figure over time: a line on a scale from 0, the same in words, and as a table when asked for. */
export function Chart({ title, points, top, isFixed = false, threshold, show, none }: Props) {
  const id = useId()
  const [isTable, setIsTable] = useState(false)
  const values = points.map(({ value }) => value)
  const end = isFixed ? top : roundUp(Math.max(top, ...values, threshold?.at ?? 0))
  const y = (value: number) => HEIGHT - (Math.min(value, end) / end) * HEIGHT
  return (
    <figure aria-labelledby={id} className="flex min-w-0 flex-col gap-2 py-1">
      <figcaption id={id} className="flex flex-wrap items-baseline justify-between gap-x-3">
        <span className="font-medium">{title}</span>{' '}
        <span className="text-xs text-muted tabular-nums">{points.length > 0 ? summary(points, show) : none}</span>
      </figcaption>
      {points.length > 0 && (
        <>
          <div className="grid grid-cols-[1fr_auto] gap-x-2">
            <svg aria-hidden viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" className="h-30 w-full overflow-visible">
              <path d={`M0 0H${WIDTH}M0 ${HEIGHT}H${WIDTH}`} vectorEffect="non-scaling-stroke" className="stroke-line" />
              {threshold && (
                <path d={`M0 ${y(threshold.at)}H${WIDTH}`} vectorEffect="non-scaling-stroke" strokeDasharray="4 4" className="stroke-warn" />
              )}
              <path d={line(points, y)} fill="none" vectorEffect="non-scaling-stroke" strokeWidth={points.length === 1 ? 5 : 1.5} strokeLinecap="round" className="stroke-run" />
            </svg>
            <div aria-hidden className="relative w-12 text-2xs text-subtle tabular-nums">
              <span className="absolute -top-2">{show(end)}</span>
              <span className="absolute -bottom-2">{show(0)}</span>
              {threshold && threshold.at < end * 0.85 && threshold.at > end * 0.15 && (
                <span className="absolute -translate-y-1/2 text-warn" style={{ top: `${(y(threshold.at) / HEIGHT) * 100}%` }}>
                  {show(threshold.at)}
                </span>
              )}
            </div>
          </div>
          <div className="flex flex-wrap items-center gap-x-3 text-2xs text-subtle">
            <span>
              {clock(new Date(points[0]?.at ?? 0))} to {clock(new Date(points.at(-1)?.at ?? 0))}
            </span>
            {threshold && <span>dashed: {threshold.words}</span>}
            <button
              type="button"
              aria-expanded={isTable}
              onClick={() => setIsTable(!isTable)}
              className="ml-auto min-h-6 cursor-pointer hover:text-fg hover:underline"
            >
              {isTable ? 'Hide the table' : 'As a table'}
            </button>
          </div>
          {isTable && (
            // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard
            <div role="region" aria-label={`${title}, figures`} tabIndex={0} className="max-h-60 overflow-auto">
              <Table edge="section" headings={[{ label: 'When' }, { label: title, isRight: true }]}>
                {points.toReversed().map(({ at, value }) => (
                  <tr key={at} className="border-b border-line last:border-b-0">
                    <td className="px-3 text-muted">
                      <time dateTime={at}>{whole(new Date(at))}</time>
                    </td>
                    <td className="px-3 text-right tabular-nums">{show(value)}</td>
                  </tr>
                ))}
              </Table>
            </div>
          )}
        </>
      )}
    </figure>
  )
}

/** What a reader takes from the line: where it is, and how far it went. */
export function summary(points: readonly Point[], show: (value: number) => string): string {
  const [first] = points
  const last = points.at(-1)
  if (!first || !last) return ''
  const low = points.reduce((a, b) => (b.value < a.value ? b : a), first)
  const high = points.reduce((a, b) => (b.value > a.value ? b : a), first)
  if (points.length === 1) return `now ${show(last.value)}`
  if (low.value === high.value) return `${show(last.value)} all the time`
  return `now ${show(last.value)}, lowest ${show(low.value)} at ${clock(new Date(low.at))}, highest ${show(high.value)} at ${clock(new Date(high.at))}`
}

/** By time, so that a stretch that nobody measured is as wide as it was long. One point alone is a dot. */
function line(points: readonly Point[], y: (value: number) => number): string {
  const times = points.map(({ at }) => Date.parse(at))
  const [from, to] = [times[0] ?? 0, times.at(-1) ?? 0]
  if (points.length === 1) return `M${WIDTH} ${y(points[0]?.value ?? 0)}h0.01`
  return points.map(({ value }, n) => `${n === 0 ? 'M' : 'L'}${((((times[n] ?? from) - from) / (to - from || 1)) * WIDTH).toFixed(1)} ${y(value).toFixed(1)}`).join('')
}

/** 1, 2 or 5 of some power of ten: a scale that seldom changes. */
export function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value))
  const times = [1, 2, 5, 10].find((one) => one * power >= value * 0.999) ?? 10
  return times * power
}
