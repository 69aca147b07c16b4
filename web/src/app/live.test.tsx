import { screen, waitFor } from '@testing-library/react'
import { useState } from 'react'
import { afterEach, expect, test } from 'vitest'
import { session } from '../api/session'
import { liveEvent } from '../test/fakes'
import { serve, showPage } from '../test/page'
import { useLive, useNeedsChange } from './live'

const COSTS = { eventTypes: ['SANDBOX_model.call'] }

afterEach(() => session.end())

function nameOf(event: { event_type: string } | 'connected'): string {
  return event === 'connected' ? event : event.event_type
}

function Host() {
  const [page, setPage] = useState<string[]>([])
  const [shell, setShell] = useState<string[]>([])
  useNeedsChange((event) => setShell((before) => [...before, nameOf(event)]))
  useLive(COSTS, (event) => setPage((before) => [...before, nameOf(event)]))
  return (
    <p>
      page: {page.join(' ')}; shell: {shell.join(' ')}
    </p>
  )
}

test('the shell hears on any page of what waits for a person, and the page only of what it asked for', async () => {
  const served = serve(() => undefined)
  showPage(Host)
  await waitFor(() => expect(served.isFollowed()).toBe(true))
  served.tell(liveEvent(1, { event_type: 'guardian.intervention.suggested' }))
  served.tell(liveEvent(2, { event_type: 'SANDBOX_model.call' }))
  expect(await screen.findByText('page: connected SANDBOX_model.call; shell: connected guardian.intervention.suggested')).toBeTruthy()
})
