import { render, screen } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { afterEach, expect, test } from 'vitest'
import { DiffView } from './DiffView'
import { recall, remember } from './remembered'

const DIFF = 'diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n same\n-before\n+after\u202e\n'

afterEach(() => remember('diff', null))

test('a diff is shown in one column or in two, and that is remembered', async () => {
  render(<DiffView parts={[{ text: DIFF }]} />)
  expect(document.querySelectorAll('.diff-pair')).toHaveLength(0)
  await userEvent.click(screen.getByRole('button', { name: 'Side by side' }))
  const pairs = [...document.querySelectorAll('.diff-pair')].map((row) => [...row.children].map((side) => side.textContent))
  expect(pairs).toEqual([
    ['1 same', '1 same'],
    ['2−removed: before', '2+added: after⟨U+202E⟩'],
  ])
  expect([recall('diff'), screen.getByRole('button', { name: 'Side by side' }).ariaPressed]).toEqual(['split', 'true'])
})

test('several edits stand below each other under their titles', () => {
  render(<DiffView parts={[{ title: 'Edit 1 of 2', text: DIFF }, { title: 'Edit 2 of 2', text: DIFF }]} />)
  expect(screen.getByText('Edit 1 of 2')).toBeTruthy()
  expect(screen.getByText('Edit 2 of 2')).toBeTruthy()
  expect(screen.getAllByText(/before/)).toHaveLength(2)
})
