import { money } from './figures'

type Amounts = { cost_usd: number; counted_usd: number; ignored: number }

/** Below what money is counted in. */
const NEARLY_NOTHING = 1e-9

/**
 * Whether a report says more than what the server counted: a worker that calls its models through the server repeats
 * the server's figure.
 */
export function saysMore(cost: Amounts | null | undefined, counted: number): cost is Amounts {
  if (!cost) return false
  return cost.counted_usd > 0 || cost.ignored > 0 || cost.cost_usd > counted + NEARLY_NOTHING
}

/** What a worker says that it spent itself, marked as such. `beside` is what the server counted. */
export function Reported({ cost, beside }: { cost: Amounts | null | undefined; beside: number }) {
  if (!saysMore(cost, beside)) return null
  const { cost_usd, counted_usd, ignored } = cost
  const ignoring = ignored === 0 ? '' : ` ${ignored} reported ${ignored === 1 ? 'amount was' : 'amounts were'} ignored.`
  const title = `Reported by the worker itself; the server cannot check it. Budgets count ${money(counted_usd)} of it.${ignoring}`
  return (
    <span title={title} className="whitespace-nowrap text-warn tabular-nums">
      {money(cost_usd)} as reported
    </span>
  )
}
