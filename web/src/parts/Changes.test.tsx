import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { render, screen } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { useState } from 'react'
import { expect, test } from 'vitest'
import { foldFiles } from '../live/facts'
import { folded } from '../live/fold'
import type { LogEvent } from '../live/log'
import { refused, serve } from '../test/page'
import { Changes } from './Changes'

const diff = (now: string) => `diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old\n+${now}\n`

function edit(seq: number, path: string, data: object): LogEvent {
  const all = { file_path: path, change_type: 'modified', lines_added: 2, lines_removed: 1, ...data }
  return { seq, position: seq * 10, type: 'agent.file_edited', data: all, at: '2026-11-16T09:00:00Z' }
}

function Host({ events }: { events: LogEvent[] }) {
  const [chosen, setChosen] = useState<[string | undefined, number | undefined]>([undefined, undefined])
  return <Changes sandboxId="sbx-1" files={folded(foldFiles, events)} file={chosen[0]} event={chosen[1]} onChoose={(...to) => setChosen(to)} />
}

function show(events: LogEvent[]) {
  render(
    <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
      <Host events={events} />
    </QueryClientProvider>,
  )
}

test('sums up what changed, and shows all edits of a file or one of them', async () => {
  show([edit(1, 'a', { full_diff: diff('first') }), edit(2, 'a', { full_diff: diff('second') }), edit(3, 'b\u202e', { full_diff: diff('third') })])
  expect(screen.getByText(/2 files changed/).textContent).toContain('+6 lines added, −3 lines removed')
  expect(screen.getByText(/first/)).toBeTruthy()
  expect(screen.getByText(/second/)).toBeTruthy()
  await userEvent.selectOptions(screen.getByLabelText('Edit'), '2')
  expect([screen.queryByText(/first/), screen.getByText(/second/).className]).toEqual([null, 'diff-text'])
  await userEvent.click(screen.getByRole('button', { name: /^b⟨U\+202E⟩/ }))
  expect(screen.getByText(/third/)).toBeTruthy()
  expect(screen.queryByLabelText('Edit')).toBeNull()
})

test('asks for a diff that did not come with its event, once it is shown', async () => {
  const { asked } = serve(({ path }) => (path === '/sandboxes/sbx-1/diffs/evt-20' ? { full_diff: diff('fetched') } : undefined))
  show([edit(1, 'a', { full_diff: diff('first') }), edit(2, 'b', { full_diff_available: true, diff_preview: diff('begin') })])
  expect(asked).toEqual([])
  await userEvent.click(screen.getByRole('button', { name: /^b/ }))
  expect(await screen.findByText(/fetched/)).toBeTruthy()
})

test('shows the beginning of a diff that cannot be had, and says so', async () => {
  serve(() => refused(404, 'not_found', 'the diff is gone'))
  show([edit(2, 'b', { full_diff_available: true, diff_preview: diff('begin') })])
  expect((await screen.findByRole('alert')).textContent).toContain('the diff is gone')
  expect(screen.getByText('Only the beginning of the diff is there.')).toBeTruthy()
  expect(screen.getByText(/begin$/)).toBeTruthy()
})
