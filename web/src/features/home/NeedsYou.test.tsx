import { screen, waitFor } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { afterEach, expect, test } from 'vitest'
import { session } from '../../api/session'
import { overhear } from '../../app/live'
import { liveEvent } from '../../test/fakes'
import { serve, showPage } from '../../test/page'
import { NeedsYou } from './NeedsYou'

const AT = '2026-11-16T09:00:00Z'

afterEach(() => session.end())

test('what waits for a person is counted as it comes, and leads to where it is decided', async () => {
  let suggested: object[] = []
  serve(({ path, query }) => {
    if (path === '/interventions') return { items: suggested }
    if (path === '/diagnoses') return { items: [{ id: 'dia-1', root_cause: 'no disk', total_tasks: 3, failed_tasks: 2, created_at: AT }] }
    if (path === '/tasks' && query.status === 'failed') return { items: [{ id: 'task-1', title: 'Mend it', updated_at: AT }] }
    return { items: [] }
  })
  const history = showPage(NeedsYou)
  const button = await screen.findByRole('button', { name: /need you/ })
  await waitFor(() => expect(button.textContent).toContain('2'))
  suggested = [{ id: 'int-1', do: 'nudge', text: 'Stop.', created_at: AT }]
  overhear(liveEvent(1, { event_type: 'guardian.intervention.suggested' }))
  await waitFor(() => expect(button.textContent).toContain('3'))
  await userEvent.click(button)
  await userEvent.click(screen.getByRole('menuitem', { name: 'Tell the agent: the Guardian suggests' }))
  await waitFor(() => expect(history.location.href).toBe('/monitor?tab=findings'))
})
