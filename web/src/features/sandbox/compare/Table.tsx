import type { ReactNode } from 'react'

/** The first column names the row. */
export function Table({ heads, children }: { heads: readonly ReactNode[]; children: ReactNode }) {
  return (
    <table className="w-full table-fixed text-left">
      <thead className="text-2xs text-subtle">
        <tr className="h-8 border-b border-line">
          <th className="w-[28%] px-3 font-medium">
            <span className="sr-only">What</span>
          </th>
          {heads.map((head, n) => (
            // oxlint-disable-next-line react/no-array-index-key -- columns never move
            <th key={n} className={`px-2 font-medium ${n === 2 ? 'hidden w-[16%] md:table-cell' : ''}`}>
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  )
}

type RowProps = { name: ReactNode; a: ReactNode; b: ReactNode; difference?: string }

export function Row({ name, a, b, difference }: RowProps) {
  return (
    <tr className="border-b border-line align-top last:border-b-0">
      <th scope="row" className="px-3 py-1.5 font-normal text-muted">
        {name}
      </th>
      <td className="px-2 py-1.5 tabular-nums">{a}</td>
      <td className="px-2 py-1.5 tabular-nums">{b}</td>
      {difference !== undefined && <td className="hidden px-2 py-1.5 text-muted tabular-nums md:table-cell">{difference}</td>}
    </tr>
  )
}
