import { render, screen } from '@testing-library/react'
import { expect, test } from 'vitest'
import { Reported } from './Reported'

test('an amount that only a worker reports is marked as such', () => {
  render(<Reported cost={{ cost_usd: 1.75, counted_usd: 0.5, ignored: 2 }} beside={2} />)
  const shown = screen.getByText('$1.75 as reported')
  expect(shown.title).toContain('Budgets count $0.50 of it. 2 reported amounts were ignored.')
})

test('a report is shown where it says more than the server counted', () => {
  for (const [cost, beside, shown] of [
    [undefined, 0, ''],
    [{ cost_usd: 0.42, counted_usd: 0, ignored: 0 }, 0.42, ''],
    [{ cost_usd: 0.1, counted_usd: 0, ignored: 0 }, 0.42, ''],
    [{ cost_usd: 0.5, counted_usd: 0, ignored: 0 }, 0.42, '$0.50 as reported'],
    [{ cost_usd: 0, counted_usd: 0, ignored: 1 }, 0.42, '$0.00 as reported'],
  ] as const) {
    const { container, unmount } = render(<Reported cost={cost} beside={beside} />)
    expect(container.textContent).toBe(shown)
    unmount()
  }
})
