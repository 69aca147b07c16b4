import { screen, waitFor } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { useState } from 'react'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { session } from '../../api/session'
import { refused, serve, showPage, type Asked } from '../../test/page'
import { AuditPage, verdictWords } from './AuditPage'
import { asAuditSearch, type AuditSearch } from './search'

let search: AuditSearch
let asked: Asked[]
let brokenAt: number | null

function Host() {
  const [now, setNow] = useState(search)
  const onSearch = (to: AuditSearch) => {
    search = to
    setNow(to)
  }
  return <AuditPage search={now} onSearch={onSearch} />
}

beforeEach(() => {
  search = {}
  brokenAt = null
  asked = serve(({ path, query }) => {
    if (path === '/audit/verify') return { entries: 7, broken_at: brokenAt }
    if (path !== '/audit') return undefined
    const line = { n: 7, at: '2026-11-16T09:00:00Z', actor: 'ada\u202e', action: 'task.cancel', entity_type: 'task', entity_id: 'task-1', detail: { reason: 'no' }, hash: 'ff' }
    return { items: query.actor === 'nobody' ? [] : [line] }
  }).asked
})

afterEach(() => session.end())

describe('the audit trail', () => {
  test('says in words that the chain holds', async () => {
    showPage(Host, 'admin')
    expect(await screen.findByText('All 7 lines fit: nobody has changed, taken out or put in any.')).toBeTruthy()
  })

  test('says in words that it does not', async () => {
    brokenAt = 5
    showPage(Host, 'admin')
    expect((await screen.findByText(/^Line 5 does not fit/)).textContent).toContain('changed, taken out or put in')
    expect(verdictWords({ entries: 1, broken_at: null })).toBe('The one line fits: nobody has changed it.')
  })

  test('says in words that the trail was cut off or rewritten', () => {
    const head = { entries: 87, hash: 'ff', recorded_at: '2026-11-16T09:00:00Z' }
    expect(verdictWords({ entries: 37, cut_off: head })).toBe('The trail is cut off: 37 lines, but line 87 was recorded at 2026-11-16T09:00:00Z.')
    expect(verdictWords({ entries: 90, cut_off: head })).toContain('The trail was rewritten: line 87 is not the one')
  })

  test('is narrowed by form and by click, in the address', async () => {
    showPage(Host, 'admin')
    await userEvent.type(await screen.findByLabelText('Did what'), ' task.cancel ')
    await userEvent.click(screen.getByRole('button', { name: 'Filter' }))
    expect(search).toEqual({ action: 'task.cancel' })
    await userEvent.click(await screen.findByRole('button', { name: 'ada⟨U+202E⟩' }))
    expect(search).toEqual({ action: 'task.cancel', actor: 'ada\u202e' })
    await waitFor(() => expect(asked.at(-1)?.query).toEqual({ action: 'task.cancel', actor: 'ada\u202e' }))
  })

  test('without a line that fits offers all of them', async () => {
    search = { actor: 'nobody' }
    showPage(Host, 'admin')
    await userEvent.click(await screen.findByRole('button', { name: 'Show all lines' }))
    expect(search).toEqual({})
  })

  test('says which role it takes', async () => {
    serve(() => refused(403, 'role_needed', 'admin is needed'))
    showPage(Host, 'viewer')
    expect(await screen.findByText('The audit trail takes the role admin to read.')).toBeTruthy()
  })

  test('keeps in its address what makes sense', () => {
    expect(asAuditSearch({ actor: 'a', action: '', entity_id: 7, colour: 'x', entity_type: [] })).toEqual({ actor: 'a', entity_id: '7' })
  })
})
