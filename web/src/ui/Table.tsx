import type { ReactNode } from 'react'

/** Where the screen is narrower than this, the column is left out. */
type From = 'md' | 'lg'

export type Heading = {
  label: string
  from?: From
  /** Figures stand right. */
  isRight?: boolean
  /** Said, not shown: the column needs no words to be understood. */
  isHidden?: boolean
}

const FROM: Record<From, string> = { md: 'hidden md:table-cell', lg: 'hidden lg:table-cell' }
/** How far the first and the last column stand from the edge: of a page, or of a part of one. */
const EDGES = { page: 'first:px-4', section: 'first:px-3 last:px-3' }

type Props = { headings: readonly Heading[]; edge?: keyof typeof EDGES; children: ReactNode }

/** The frame of a list: its headings, and the rows that are given. */
export function Table({ headings, edge = 'page', children }: Props) {
  return (
    <table className="w-full text-left">
      <thead className="text-2xs text-subtle">
        <tr className="h-7 border-b border-line">
          {headings.map(({ label, from, isRight, isHidden }) => (
            <th key={label} className={`px-2 font-medium ${EDGES[edge]} ${from ? FROM[from] : ''} ${isRight ? 'text-right' : ''} ${isHidden ? 'w-10' : ''}`}>
              {isHidden ? <span className="sr-only">{label}</span> : label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  )
}
