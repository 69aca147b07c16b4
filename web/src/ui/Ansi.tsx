import { memo, type ReactNode } from 'react'
import type { Span } from './ansi'

/** One line of a terminal. */
export const AnsiLine = memo(function AnsiLine({ spans }: { spans: readonly Span[] }): ReactNode {
  return spans.map((span, index) =>
    span.className === '' ? (
      span.text
    ) : (
      // oxlint-disable-next-line react/no-array-index-key -- a line never changes its order
      <span key={index} className={span.className}>
        {span.text}
      </span>
    ),
  )
})
