import { screen, waitFor } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { expect, test, vi } from 'vitest'
import { refused, serve, showPage, type Answer } from '../../test/page'
import { specDetail } from './fixtures'
import { NewSpecPage } from './NewSpecPage'

const projects = {
  items: [
    { id: 'prj-1', name: 'units', archived: false },
    { id: 'prj-2', name: 'other', archived: false },
    { id: 'prj-3', name: 'old', archived: true },
  ],
  next: null,
}

function show(answer: Answer) {
  const onDone = vi.fn<(id: string) => void>()
  const { asked: calls } = serve((asked) => (asked.path === '/projects' ? projects : answer(asked)))
  showPage(() => <NewSpecPage project="prj-2" onDone={onDone} />)
  return { onDone, changes: () => calls.filter(({ method }) => method !== 'GET') }
}

test('an idea is written down in the project that was open, and nothing runs yet', async () => {
  const { onDone, changes } = show(({ method }) => (method === 'POST' ? specDetail() : undefined))
  const [title] = await screen.findAllByLabelText(/^Title/)
  if (!title) throw new Error('no title')
  const button = screen.getByRole<HTMLButtonElement>('button', { name: 'Write it down' })
  expect(button.disabled).toBe(true)
  await userEvent.type(title, ' Replay ')
  await userEvent.type(screen.getByLabelText(/The idea/), 'Show it again.')
  await userEvent.selectOptions(screen.getByLabelText('Way'), 'quick')
  await userEvent.click(button)
  await waitFor(() => expect(onDone).toHaveBeenCalledWith('spec-1'))
  expect(changes().map(({ path, body }) => [path, body])).toEqual([
    ['/specs', { project_id: 'prj-2', title: 'Replay', description: 'Show it again.', flow: 'quick' }],
  ])
})

test('files that were written elsewhere are sent by their names, and a refusal names the file', async () => {
  const { onDone, changes } = show(() => refused(422, 'import_unreadable', 'tasks.md line 3: no task'))
  const files = [new File(['# R'], 'requirements.md'), new File(['# T'], 'tasks.md')]
  await userEvent.upload(await screen.findByLabelText('Files'), files)
  await userEvent.click(screen.getByRole('button', { name: 'Import' }))
  expect((await screen.findByRole('alert')).textContent).toContain('tasks.md line 3: no task')
  expect(changes()[0]).toMatchObject({
    path: '/specs/import',
    body: { project_id: 'prj-2', files: { 'requirements.md': '# R', 'tasks.md': '# T' } },
  })
  expect(onDone).not.toHaveBeenCalled()
})

test('its gates are those of the project, unless the spec says them itself', async () => {
  const { onDone, changes } = show(({ method, path }) => {
    if (path === '/projects/prj-2/spec-gates') return { gates: ['design'], effective: ['design'] }
    return method === 'POST' ? specDetail() : undefined
  })
  const usual = await screen.findByRole('checkbox', { name: 'As the project says: Design' })
  await userEvent.click(usual)
  expect(screen.getByRole<HTMLInputElement>('checkbox', { name: 'Design' }).checked).toBe(true)
  await userEvent.click(screen.getByRole('checkbox', { name: 'Tasks' }))
  const [title] = screen.getAllByLabelText(/^Title/)
  if (!title) throw new Error('no title')
  await userEvent.type(title, 'Replay')
  await userEvent.selectOptions(screen.getByLabelText('Way'), 'bugfix')
  expect(screen.queryByRole('checkbox', { name: 'Design' })).toBeNull()
  await userEvent.click(screen.getByRole('button', { name: 'Write it down' }))
  await waitFor(() => expect(onDone).toHaveBeenCalledWith('spec-1'))
  expect(changes()[0]?.body).toMatchObject({ flow: 'bugfix', gates: ['tasks'] })
})
