import { act, screen, waitFor, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { useState } from 'react'
import { describe, expect, test, vi } from 'vitest'
import type { LiveEvent, PhaseDetail, Role, SpecDetail } from '../../api/types'
import { frame, liveEvent } from '../../test/fakes'
import { refused, serve, showPage, type Asked } from '../../test/page'
import { attempt, duplicate, phaseDetail, REQUIREMENTS, specDetail } from './fixtures'
import type { SpecSearch } from './search'
import { SpecPage } from './SpecPage'

type Given = {
  spec?: () => SpecDetail
  phase?: Partial<PhaseDetail>
  change?: (asked: Asked) => unknown
  more?: (asked: Asked) => unknown
  search?: SpecSearch
  role?: Role
}

function show({ spec = () => specDetail(), phase = {}, change, more, search = {}, role }: Given = {}) {
  const { asked: calls } = serve((asked) => {
    if (asked.method !== 'GET') return change?.(asked) ?? spec()
    if (asked.path === '/specs/spec-1') return spec()
    if (asked.path === '/specs/spec-1/phases/requirements') {
      return phaseDetail('requirements', { ...spec().phases.at(-1), output: REQUIREMENTS, markdown: '# Doc', ...phase })
    }
    if (asked.path.endsWith('/trajectory')) return { events: [], next: null }
    return more?.(asked)
  })
  showPage(function Shown() {
    const [kept, setKept] = useState<SpecSearch>(search)
    return <SpecPage id="spec-1" search={kept} onSearch={(next) => setKept((old) => ({ ...old, ...next }))} />
  }, role)
  return () => calls.filter(({ method }) => method !== 'GET')
}

const dialog = () => screen.findByRole('dialog')

describe('the workspace of a spec', () => {
  test('shows each phase with its state and score, and the output of the one it is at', async () => {
    show()
    const rail = within(await screen.findByRole('navigation', { name: 'Phases' }))
    const steps = rail.getAllByRole('link').map((link) => link.textContent)
    expect(steps).toEqual([
      '1Explorepassed0.8642 s',
      '2PRDpassed0.8642 s',
      '3Requirementswaits for a personwaiting0.8642 s',
      '4Designwaits for a personnot begun',
      '5Tasksnot begun',
      '6Syncnot begun',
    ])
    expect(rail.getByRole('link', { current: 'step' }).textContent).toContain('Requirements')
    expect(await screen.findByText(/THE system SHALL show its events/)).toBeTruthy()
    expect(screen.getByText('For how long?; owner: ada')).toBeTruthy()
    expect(screen.getByRole('meter', { name: 'Score' }).getAttribute('aria-valuetext')).toBe('0.86 of 1, needs 0.70')
  })

  test('gives the reasons for a score', async () => {
    const findings = [
      { severity: 'issue', at: '$.requirements[0]', text: 'cites no source' },
      { severity: 'warning', at: '$', text: 'is short' },
    ]
    show({ spec: () => specDetail({ phases: [attempt('requirements', { state: 'waiting', findings })] }) })
    expect(await screen.findByText('cites no source', { exact: false })).toBeTruthy()
    expect(screen.getByText('issue:')).toBeTruthy()
    expect(screen.getByText('warning:')).toBeTruthy()
    expect(screen.queryByText('Nothing was found wrong.')).toBeNull()
  })

  test('shows an output as a document as well', async () => {
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'As a document' }))
    expect(screen.getByText('Doc')).toBeTruthy()
    expect(screen.queryByText(/THE system SHALL/)).toBeNull()
  })

  test('says that there is no such spec', async () => {
    serve(() => undefined)
    showPage(() => <SpecPage id="spec-0" search={{}} onSearch={() => undefined} />)
    expect(await screen.findByText('There is no spec spec-0.')).toBeTruthy()
  })
})

describe('approval', () => {
  test('asks first, by key as well, and names what happens next', async () => {
    const changes = show({ change: () => specDetail({ status: 'executing' }) })
    await screen.findByRole('button', { name: 'Approve and go on to Design' })
    await userEvent.keyboard('a')
    const asks = within(await dialog())
    expect(asks.getByText(/A sandbox starts on Design/)).toBeTruthy()
    expect(changes()).toEqual([])
    await userEvent.type(asks.getByLabelText(/Comment/), 'good')
    await userEvent.click(asks.getByRole('button', { name: 'Approve and go on to Design' }))
    await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull())
    expect(changes().map(({ path, body }) => [path, body])).toEqual([
      ['/specs/spec-1/approve', { phase: 'requirements', version: 5, comment: 'good' }],
    ])
  })

  test('is refused with the reason of the server', async () => {
    show({ change: () => refused(409, 'version_conflict', 'version 6 is newer; look at it again') })
    await userEvent.click(await screen.findByRole('button', { name: 'Approve and go on to Design' }))
    const asks = within(await dialog())
    await userEvent.click(asks.getByRole('button', { name: 'Approve and go on to Design' }))
    expect((await asks.findByRole('alert')).textContent).toContain('version 6 is newer; look at it again')
  })

  test('is of the version that was seen when it was asked, and words typed meanwhile stay', async () => {
    let version = 5
    const changes = show({
      spec: () => specDetail({ version }),
      change: () => refused(409, 'version_conflict', 'version 6 is newer'),
    })
    await userEvent.click(await screen.findByRole('button', { name: 'Approve and go on to Design' }))
    const asks = within(await dialog())
    await userEvent.type(asks.getByLabelText(/Comment/), 'good')
    version = 6
    const approve = asks.getByRole('button', { name: 'Approve and go on to Design' })
    await userEvent.click(approve)
    await asks.findByRole('alert')
    await screen.findByText('version 6')
    await userEvent.click(approve)
    await waitFor(() => expect(changes()).toHaveLength(2))
    expect(changes().map(({ body }) => body)).toEqual([
      { phase: 'requirements', version: 5, comment: 'good' },
      { phase: 'requirements', version: 5, comment: 'good' },
    ])
  })

  test('is not offered where nothing waits', async () => {
    show({ spec: () => specDetail({ status: 'executing', phases: [attempt('requirements', { state: 'running', score: null })] }) })
    expect(await screen.findByText('An agent works on it.')).toBeTruthy()
    await userEvent.keyboard('a')
    await userEvent.keyboard('r')
    expect(screen.queryByRole('dialog')).toBeNull()
    expect(screen.queryByRole('button', { name: /Approve|Ask for changes|Edit by hand/ })).toBeNull()
  })

  test('is not for viewers', async () => {
    show({ role: 'viewer' })
    await screen.findByText(/THE system SHALL/)
    expect(screen.queryByRole('button', { name: /Approve|Ask for changes|Edit by hand|Redo/ })).toBeNull()
  })
})

describe('asking for changes', () => {
  test('needs a sentence and sends it', async () => {
    const changes = show()
    await screen.findByRole('button', { name: 'Ask for changes' })
    await userEvent.keyboard('r')
    const asks = within(await dialog())
    const send = asks.getByRole<HTMLButtonElement>('button', { name: 'Send and try again' })
    expect(send.disabled).toBe(true)
    await userEvent.type(asks.getByLabelText('What should be different'), '   ')
    expect(send.disabled).toBe(true)
    await userEvent.type(asks.getByLabelText('What should be different'), 'Name the format.')
    await userEvent.click(send)
    await waitFor(() => expect(changes()).toHaveLength(1))
    expect(changes()[0]?.body).toEqual({ phase: 'requirements', version: 5, comment: 'Name the format.' })
  })
})

const later = () =>
  specDetail({ status: 'completed', current_phase: 'requirements', phases: [attempt('design'), attempt('requirements')] })
const draft = () => specDetail({ status: 'draft', current_phase: 'explore', phases: [] })

describe('editing by hand', () => {
  test('says which later phases become stale before it saves', async () => {
    const changes = show({ spec: later })
    await userEvent.click(await screen.findByRole('button', { name: 'Edit by hand' }))
    expect(screen.getByText(/Design becomes stale and is redone/)).toBeTruthy()
    const field = screen.getByLabelText<HTMLTextAreaElement>('Requirements, as JSON')
    await userEvent.clear(field)
    await userEvent.type(field, '{{"requirements": [[')
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Save' }).disabled).toBe(true)
    expect(screen.getByText(/^Not JSON/)).toBeTruthy()
    await userEvent.type(field, ']}')
    await userEvent.click(screen.getByRole('button', { name: 'Save' }))
    await waitFor(() => expect(changes()).toHaveLength(1))
    expect(changes()[0]).toMatchObject({
      method: 'PUT',
      path: '/specs/spec-1/phases/requirements',
      body: { version: 5, output: { requirements: [] } },
    })
  })

  test('keeps what was typed when the server refuses it', async () => {
    show({ spec: later, change: () => refused(422, 'output_malformed', '$.requirements is empty') })
    await userEvent.click(await screen.findByRole('button', { name: 'Edit by hand' }))
    const field = screen.getByLabelText<HTMLTextAreaElement>('Requirements, as JSON')
    await userEvent.clear(field)
    await userEvent.type(field, '{{}')
    await userEvent.click(screen.getByRole('button', { name: 'Save' }))
    expect((await screen.findByRole('alert')).textContent).toContain('$.requirements is empty')
    expect(field.value).toBe('{}')
  })
})

test('a draft is started where it stands, and a refusal is shown', async () => {
  const changes = show({ spec: draft, change: () => refused(400, 'spec_without_project', 'set its project_id first') })
  await userEvent.click(await screen.findByRole('button', { name: 'Start: Explore in a sandbox' }))
  expect((await screen.findByRole('alert')).textContent).toContain('set its project_id first')
  expect(changes()[0]?.path).toBe('/specs/spec-1/execute')
})

test('redoing a phase says what is redone with it', async () => {
  const changes = show({
    spec: () => specDetail({ status: 'failed', last_error: 'three attempts failed', phases: [attempt('requirements', { state: 'failed' })] }),
  })
  expect(await screen.findByText('three attempts failed')).toBeTruthy()
  await userEvent.click(screen.getByRole('button', { name: 'Redo from here' }))
  await userEvent.click(within(await dialog()).getByRole('button', { name: 'Start Requirements again' }))
  await waitFor(() => expect(changes()).toHaveLength(1))
  expect(changes()[0]?.body).toEqual({ enable_embeddings: true, resume_from_phase: 'requirements' })
})

test('what people decided stays with the phase', async () => {
  const comments = [
    { n: 1, phase: 'requirements', attempt: 1, decision: 'changes_requested', actor: 'ada', comment: 'Name it.', created_at: '2026-11-16T09:00:00Z' } as const,
  ]
  show({ phase: { comments } })
  expect(await screen.findByText('Name it.')).toBeTruthy()
  expect(screen.getByText('asked for changes to')).toBeTruthy()
})

test('an earlier attempt can be read', async () => {
  const calls: string[] = []
  show({ phase: { attempts: [1, 2] }, spec: () => specDetail({ phases: [attempt('requirements', { attempt: 2, state: 'waiting' })] }) })
  const inner = globalThis.fetch
  vi.stubGlobal('fetch', (input: Request | string) => {
    calls.push(typeof input === 'string' ? input : input.url)
    return inner(input)
  })
  await userEvent.selectOptions(await screen.findByLabelText('Attempt'), '1')
  await waitFor(() => expect(calls.some((url) => url.endsWith('/phases/requirements?attempt=1'))).toBe(true))
  expect(screen.queryByRole('button', { name: 'Edit by hand' })).toBeNull()
})

const snapshot = (state: string) => ({
  title: 'Event replay',
  description: '',
  status: state,
  gates: [],
  phases: [{ phase: 'requirements', attempt: 1, state, score: 1 }],
})

test('versions show what each has changed', async () => {
  const versions = [
    { version: 2, cause: 'approved', actor: 'ada', snapshot: snapshot('approved'), created_at: '2026-11-16T09:00:00Z' },
    { version: 1, cause: 'phase_passed', actor: 'advance', snapshot: snapshot('waiting'), created_at: '2026-11-16T09:00:00Z' },
  ]
  show({ more: ({ path }) => (path.endsWith('/versions') ? { items: versions, next: null } : undefined) })
  await userEvent.click(await screen.findByRole('button', { name: 'Versions' }))
  expect((await screen.findByText(/approved a phase/)).textContent).toBe('ada approved a phase · Requirements approved')
  await userEvent.click(screen.getByRole('button', { name: 'Changes of version 2' }))
  const diff = within(await screen.findByRole('region', { name: 'Diff' }))
  expect(diff.getByText(/attempt 1, approved, score 1.00/)).toBeTruthy()
  expect(diff.getByText(/attempt 1, waiting, score 1.00/)).toBeTruthy()
})

test('lives by the stream: a sandbox that works is shown, and a judged phase is fetched again', async () => {
  let isJudged = false
  const running = () =>
    specDetail(
      isJudged
        ? {}
        : { status: 'executing', phases: [attempt('requirements', { state: 'running', score: null, ended_at: null })] },
    )
  show({ spec: running })
  let stream: ReadableStreamDefaultController<Uint8Array> | undefined
  let asked = ''
  const inner = globalThis.fetch
  vi.stubGlobal('fetch', (input: Request | string) => {
    if (typeof input !== 'string' || !input.startsWith('/api/v1/stream')) return inner(input)
    asked = decodeURIComponent(input)
    return Promise.resolve(new Response(new ReadableStream<Uint8Array>({ start: (given) => void (stream = given) })))
  })
  const tell = (event: LiveEvent) => act(async () => stream?.enqueue(new TextEncoder().encode(frame(event))))
  await screen.findByText('Waits for its sandbox.')
  await waitFor(() => expect(asked).toContain('entity_ids=spec-1,task-requirements,sbx-requirements'))
  await tell(liveEvent(1, { entity_id: 'sbx-requirements', payload: { content: 'reads the store' } }))
  expect((await screen.findAllByText('reads the store')).length).toBe(2)
  isJudged = true
  await tell(liveEvent(2, { entity_type: 'spec', entity_id: 'spec-1', event_type: 'SPEC_PHASE_JUDGED', seq: null }))
  expect(await screen.findByRole('button', { name: 'Approve and go on to Design' })).toBeTruthy()
})

test('the score is held against what the server asks for', async () => {
  show({ spec: () => specDetail({ threshold: 0.9 }) })
  expect((await screen.findByRole('meter', { name: 'Score' })).getAttribute('aria-valuetext')).toBe('0.86 of 1, needs 0.90')
  expect(screen.getByText('needs 0.90')).toBeTruthy()
})

describe('the gates of a spec', () => {
  test('are chosen of the version that was seen, and gates that its flow has not stay', async () => {
    const quick = { flow: 'quick', flow_phases: ['tasks', 'sync'], gates: ['design'] } as const
    const changes = show({
      spec: () => specDetail({ ...quick, flow_phases: [...quick.flow_phases], gates: [...quick.gates], current_phase: 'tasks', phases: [] }),
    })
    await userEvent.click(await screen.findByRole('button', { name: 'Choose' }))
    const save = screen.getByRole<HTMLButtonElement>('button', { name: 'Save' })
    expect(save.disabled).toBe(true)
    expect(screen.queryByRole('checkbox', { name: 'Design' })).toBeNull()
    await userEvent.click(screen.getByRole('checkbox', { name: 'Tasks' }))
    await userEvent.click(save)
    await waitFor(() => expect(changes()).toHaveLength(1))
    expect(changes()[0]).toMatchObject({ method: 'PATCH', path: '/specs/spec-1', body: { version: 5, gates: ['tasks', 'design'] } })
    await waitFor(() => expect(screen.queryByRole('button', { name: 'Save' })).toBeNull())
  })

  test('are kept as they were ticked when the server refuses them', async () => {
    show({ change: () => refused(409, 'version_conflict', 'version 6 is newer') })
    await userEvent.click(await screen.findByRole('button', { name: 'Choose' }))
    await userEvent.click(screen.getByRole('checkbox', { name: 'Design' }))
    await userEvent.click(screen.getByRole('button', { name: 'Save' }))
    expect((await screen.findByRole('alert')).textContent).toContain('version 6 is newer')
    expect(screen.getByRole<HTMLInputElement>('checkbox', { name: 'Design' }).checked).toBe(false)
  })

  test('are shown to viewers and not theirs to choose', async () => {
    show({ role: 'viewer' })
    expect(await screen.findByText('Requirements and Design')).toBeTruthy()
    expect(screen.queryByRole('button', { name: /Choose|Archive/ })).toBeNull()
  })
})

test('an archived spec says so, is changed by nobody, and is brought back', async () => {
  let archived = true
  const changes = show({ spec: () => specDetail({ archived }), change: () => void (archived = false) })
  expect(await screen.findByText(/It is archived/)).toBeTruthy()
  expect(screen.queryByRole('button', { name: /Approve|Ask for changes|Edit by hand|Redo|Choose/ })).toBeNull()
  await userEvent.click(screen.getByRole('button', { name: 'Bring back' }))
  expect(await screen.findByRole('button', { name: 'Archive' })).toBeTruthy()
  expect(screen.queryByText(/It is archived/)).toBeNull()
  expect(changes()[0]).toMatchObject({ method: 'PATCH', body: { version: 5, archived: false } })
})

test('tasks that may exist already are told of on other phases, with a way to decide', async () => {
  show({ spec: () => specDetail({ duplicates: [duplicate('TSK-001', 'task-old')] }) })
  expect(await screen.findByText(/1 task may exist already/)).toBeTruthy()
  expect(screen.getByRole('link', { name: 'Decide about it' })).toBeTruthy()
})
