import { useMutation, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { asProblem } from '../../api/problem'
import { errorsOf } from '../../api/refusal'
import type { Project } from '../../api/types'
import { Button } from '../../ui/Button'
import { AreaField, SelectField, TextField } from '../../ui/Field'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { EMPTY, newTask, type Draft } from './newTask'
import { projectChoice, taskCreate, taskRelease, taskStart } from './queries'

/** The scripted one plays a scenario of the server's own and needs no key. */
const MODELS = ['claude-sonnet-4-5', 'claude-opus-4-5', 'scripted/binomial']
const MODES = [
  { value: '', label: 'As the task’s type says' },
  { value: 'implementation', label: 'Implementation: changes files and pushes' },
  { value: 'exploration', label: 'Exploration: reads and writes up' },
  { value: 'validation', label: 'Validation: runs and judges' },
]
const FIELDS = [
  'project_id',
  'title',
  'description',
  'model',
  'mode',
  'base',
  'max_turns',
  'budget_usd',
  'wall_clock_seconds',
] as const

type Props = { project: string | undefined; onStarted: (sandbox: string) => void }

export function NewTaskPage({ project, onStarted }: Props) {
  const projects = useQuery(projectChoice())
  return (
    <Page title="New task">
      {projects.isPending && <Skeleton rows={6} label="Loading projects" />}
      {projects.error && <ErrorPanel error={projects.error} onRetry={() => void projects.refetch()} />}
      {projects.data?.items.length === 0 && (
        <Empty title="A task belongs to a project, and there is none yet.">
          <Link to="/projects/new" className="text-accent underline">
            Add a project
          </Link>
        </Empty>
      )}
      {projects.data && projects.data.items.length > 0 && (
        <Form projects={projects.data.items.filter(({ archived }) => !archived)} wanted={project} onStarted={onStarted} />
      )}
    </Page>
  )
}

type FormProps = { projects: Project[]; wanted: string | undefined; onStarted: (sandbox: string) => void }

function Form({ projects, wanted, onStarted }: FormProps) {
  const first = projects.find(({ id }) => id === wanted) ?? projects[0]
  const [draft, setDraft] = useState<Draft>({ ...EMPTY, project: first?.id ?? '' })
  const set = (field: keyof Draft) => (value: string) => setDraft((old) => ({ ...old, [field]: value }))
  const project = projects.find(({ id }) => id === draft.project)

  const create = useMutation({ mutationFn: () => taskCreate(newTask(draft)) })
  const made = create.data
  const start = useMutation({
    mutationFn: async (task: NonNullable<typeof made>) => {
      const sandbox = await taskStart(task, draft.base.trim())
      if (task.execution_config.autonomous === false) await taskRelease(task)
      return sandbox
    },
    onSuccess: onStarted,
  })
  const isBusy = create.isPending || start.isPending
  const submit = async () => {
    // What was made is not made twice, whatever became of its sandbox.
    const task = made ?? (await create.mutateAsync().catch(() => undefined))
    if (task) await start.mutateAsync(task).catch(() => undefined)
  }
  const error = create.error ?? start.error
  const errors = errorsOf(error ? asProblem(error) : undefined, FIELDS)

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        void submit()
      }}
      className="flex max-w-180 flex-col gap-4 p-4"
    >
      {made && start.error && (
        <p role="status" className="rounded-lg bg-warn-soft p-3 text-warn">
          The task is made, but no sandbox was started for it.{' '}
          <Link to="/tasks/$id" params={{ id: made.id }} className="underline">
            Open the task
          </Link>
        </p>
      )}
      {errors.rest && (
        <div className="-m-3">
          <ErrorPanel error={errors.rest} />
        </div>
      )}
      <fieldset disabled={isBusy || made !== undefined} className="contents">
        <SelectField
          label="Project"
          required
          value={draft.project}
          onChange={set('project')}
          error={errors.at('project_id')}
          options={projects.map(({ id, name }) => ({ value: id, label: name }))}
        />
        <AreaField
          label="What to do"
          required
          rows={7}
          value={draft.what}
          onChange={set('what')}
          error={errors.at('title') ?? errors.at('description')}
          hint="The first line names the task. Say what should be true when it is done."
        />
        <div className="grid gap-4 md:grid-cols-2">
          <TextField
            label="Model"
            value={draft.model}
            onChange={set('model')}
            error={errors.at('model')}
            suggestions={MODELS}
            isCode
            placeholder={modelOf(project) ?? 'the server’s default'}
            hint="scripted/binomial plays a demonstration and needs no key."
          />
          <SelectField label="Mode" value={draft.mode} onChange={set('mode')} error={errors.at('mode')} options={MODES} />
        </div>
      </fieldset>
      <fieldset disabled={isBusy} className="contents">
        <TextField
          label="Start from"
          value={draft.base}
          onChange={set('base')}
          error={errors.at('base')}
          isCode
          placeholder={project?.default_branch ?? ''}
          hint="A branch or a commit; empty is the project’s default branch."
        />
      </fieldset>
      <fieldset disabled={isBusy || made !== undefined} className="grid gap-4 md:grid-cols-3">
        <legend className="mb-2 font-medium">Limits</legend>
        <TextField
          label="Turns"
          inputMode="numeric"
          value={draft.turns}
          onChange={set('turns')}
          error={errors.at('max_turns')}
        />
        <TextField
          label="Budget in USD"
          inputMode="decimal"
          value={draft.budget}
          onChange={set('budget')}
          error={errors.at('budget_usd')}
          hint="0 is no limit."
        />
        <TextField
          label="Time in minutes"
          inputMode="decimal"
          value={draft.minutes}
          onChange={set('minutes')}
          error={errors.at('wall_clock_seconds')}
        />
      </fieldset>
      <div>
        <Button look="main" type="submit" disabled={isBusy}>
          {isBusy ? 'Starting…' : made ? 'Try to start it again' : `Start in ${project?.name ?? 'the project'}`}
        </Button>
      </div>
    </form>
  )
}

function modelOf(project: Project | undefined): string | undefined {
  const { model } = project?.settings ?? {}
  return typeof model === 'string' ? model : undefined
}
