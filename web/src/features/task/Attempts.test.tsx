import { screen } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import type { UseQueryResult } from '@tanstack/react-query'
import { expect, test } from 'vitest'
import type { Sandbox } from '../../api/types'
import { showPage } from '../../test/page'
import { Attempts, choose } from './Attempts'

const sandbox = (id: string) => ({ id, status: 'failed', created_at: '2026-11-16T09:00:00Z' }) as Sandbox
const answered = (items: Sandbox[]) => ({ data: { items }, isPending: false, error: null }) as unknown as UseQueryResult<{ items: Sandbox[] }>

test('two attempts are chosen at most, the later ones', () => {
  expect(choose([], 'a')).toEqual(['a'])
  expect(choose(['a', 'b'], 'c')).toEqual(['b', 'c'])
  expect(choose(['a', 'b'], 'a')).toEqual(['b'])
})

test('two chosen attempts can be compared, the earlier first', async () => {
  showPage(() => <Attempts attempts={answered([sandbox('sbx-3'), sandbox('sbx-2'), sandbox('sbx-1')])} />)
  expect(await screen.findByText('Choose two attempts to compare them.')).toBeTruthy()
  await userEvent.click(screen.getByRole('checkbox', { name: 'Compare sbx-3' }))
  await userEvent.click(screen.getByRole('checkbox', { name: 'Compare sbx-1' }))
  expect(screen.getByRole('link', { name: 'Compare the two attempts' }).getAttribute('href')).toBe('/compare?a=sbx-1&b=sbx-3')
})

test('one attempt has nothing to be compared with', async () => {
  showPage(() => <Attempts attempts={answered([sandbox('sbx-1')])} />)
  expect(await screen.findByText('sbx-1')).toBeTruthy()
  expect(screen.queryByRole('checkbox')).toBeNull()
})
