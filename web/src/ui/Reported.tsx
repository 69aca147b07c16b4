import { money } from './figures'

type Amounts = { cost_usd: number; counted_usd: number; ignored: number }

/** What a worker says that it spent itself, marked as such. Shows nothing where none was reported. */
export function Reported({ cost }: { cost: Amounts | null | undefined }) {
  if (!cost) return null
  const { cost_usd, counted_usd, ignored } = cost
  const ignoring = ignored === 0 ? '' : ` ${ignored} reported ${ignored === 1 ? 'amount was' : 'amounts were'} ignored.`
  const title = `Reported by the worker itself; the server cannot check it. Budgets count ${money(counted_usd)} of it.${ignoring}`
  return (
    <span title={title} className="whitespace-nowrap text-warn tabular-nums">
      {money(cost_usd)} as reported
    </span>
  )
}
