import { render, screen } from '@testing-library/react'
import { expect, test } from 'vitest'
import { Reported } from './Reported'

test('an amount that only a worker reports is marked as such', () => {
  render(<Reported cost={{ cost_usd: 1.75, counted_usd: 0.5, ignored: 2 }} />)
  const shown = screen.getByText('$1.75 as reported')
  expect(shown.title).toContain('Budgets count $0.50 of it. 2 reported amounts were ignored.')
})

test('where no worker reported a cost, nothing is shown', () => {
  const { container } = render(<Reported cost={undefined} />)
  expect(container.textContent).toBe('')
})
