import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { asProblem, Problem } from '../../api/problem'
import { errorsOf } from '../../api/refusal'
import { useSession } from '../../api/session'
import type { Project } from '../../api/types'
import { useFresh } from '../../app/live'
import { Button } from '../../ui/Button'
import { AreaField, TextField } from '../../ui/Field'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { oneLine } from '../../ui/plain'
import { projectOne, projectUpdate } from './queries'
import { formOf, patchOf, type Form } from './settings'
import { SpecGates } from './SpecGates'

const CHANGES = { entityTypes: ['project'] }
const TITLE_CHARS = 120

export function ProjectPage({ id }: { id: string }) {
  const project = useQuery(projectOne(id))
  useFresh(CHANGES, [['projects']], (event) => event.entity_id === id)
  if (project.error instanceof Problem && [404, 422].includes(project.error.status)) {
    return (
      <Page title="No such project">
        <Empty title={`There is no project ${oneLine(id, TITLE_CHARS)}.`}>
          <Link to="/projects" className="text-accent underline">
            All projects
          </Link>
        </Empty>
      </Page>
    )
  }
  return (
    <Page
      title={project.data ? oneLine(project.data.name, TITLE_CHARS) : 'Project'}
      aside={
        project.data && (
          <>
            <Link to="/sandboxes/new" search={{ project: id }} className="text-accent underline">
              Start a task in it
            </Link>
            <Link to="/board" search={{ project: id }} className="text-accent underline">
              Its board
            </Link>
            <Link to="/graph" search={{ id }} className="text-accent underline">
              Its graph
            </Link>
          </>
        )
      }
    >
      {project.isPending && <Skeleton rows={8} label="Loading the project" />}
      {project.error && <ErrorPanel error={project.error} onRetry={() => void project.refetch()} />}
      {project.data && (
        <div className="flex max-w-180 flex-col gap-4 p-4">
          <Settings key={id} project={project.data} />
          <SpecGates key={`gates ${id}`} id={id} />
        </div>
      )}
    </Page>
  )
}

type Field = keyof Form
type Shown = { label: string; hint?: string; rows?: number; isCode?: boolean; inputMode?: 'numeric' | 'decimal' }

const SHOWN: Record<Field, Shown> = {
  name: { label: 'Name' },
  repository_url: { label: 'Repository', isCode: true, hint: 'An address, or a path on the server’s machine.' },
  default_branch: { label: 'Default branch', isCode: true, hint: 'Where sandboxes start from.' },
  max_concurrent: { label: 'Sandboxes at once', inputMode: 'numeric', hint: 'Until it is set, the server’s default.' },
  model: { label: 'Model', isCode: true, hint: 'Empty is the server’s default.' },
  budget_usd: { label: 'Budget in USD', inputMode: 'decimal', hint: 'For all of the project; 0 is no limit.' },
  git_author_name: { label: 'Author of commits' },
  git_author_email: { label: 'Their e-mail address', isCode: true },
  setup: { label: 'Setup', rows: 3, isCode: true, hint: 'A shell command that prepares a new sandbox.' },
  checks: {
    label: 'Checks',
    rows: 4,
    isCode: true,
    hint: 'One per line, as “name: command”. A task is verified once all of them pass on its commit.',
  },
  egress_allow: {
    label: 'Hosts that sandboxes may reach',
    rows: 4,
    isCode: true,
    hint: 'One per line, such as crates.io or *.example.com. Empty is the server’s list.',
  },
}
const FIELDS = Object.keys(SHOWN) as Field[]
/** The server takes no change of these back to nothing. */
const LASTING: readonly Field[] = ['name', 'default_branch', 'repository_url']

function Settings({ project }: { project: Project }) {
  const who = useSession()
  const queries = useQueryClient()
  // What the form was filled from; a change that comes meanwhile does not overwrite what is typed.
  const [base, setBase] = useState(project)
  const [form, setForm] = useState(() => formOf(project))
  const patch = patchOf(form, base, project.settings)
  const isChanged = Object.keys(patch).length > 0
  const adopt = (newer: Project) => {
    setBase(newer)
    setForm(formOf(newer))
  }
  const save = useMutation({
    mutationFn: () => projectUpdate(project.id, patch),
    onSuccess: (saved) => {
      queries.setQueryData(projectOne(project.id).queryKey, saved)
      adopt(saved)
    },
  })
  const isStale = project.updated_at !== base.updated_at
  // Where nothing is typed there is nothing to overwrite.
  if (isStale && !isChanged && !save.isPending) adopt(project)
  const errors = errorsOf(save.error ? asProblem(save.error) : undefined, FIELDS)

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        save.mutate()
      }}
      className="flex flex-col gap-4"
    >
      {isStale && isChanged && (
        <p role="status" className="flex flex-wrap items-center gap-3 rounded-lg bg-warn-soft p-3 text-warn">
          Somebody has changed this project since.
          <Button onClick={() => adopt(project)}>Show it as it is now</Button>
        </p>
      )}
      {errors.rest && (
        <div className="-m-3">
          <ErrorPanel error={errors.rest} />
        </div>
      )}
      <fieldset disabled={save.isPending || who?.role === 'viewer'} className="grid gap-4 md:grid-cols-2">
        <legend className="sr-only">Settings</legend>
        {FIELDS.map((field) => {
          const { rows, inputMode, ...shown } = SHOWN[field]
          const common = {
            ...shown,
            value: form[field],
            required: LASTING.includes(field) && formOf(base)[field] !== '',
            error: errors.at(field),
            onChange: (value: string) => setForm((old) => ({ ...old, [field]: value })),
          }
          return rows ? (
            <div key={field} className="md:col-span-2">
              <AreaField {...common} rows={rows} />
            </div>
          ) : (
            <TextField key={field} {...common} {...(inputMode && { inputMode })} />
          )
        })}
      </fieldset>
      {who?.role === 'viewer' ? (
        <p className="text-muted">To change settings takes the role operator.</p>
      ) : (
        <div className="flex items-center gap-3">
          <Button look="main" type="submit" disabled={!isChanged || save.isPending}>
            {save.isPending ? 'Saving…' : 'Save'}
          </Button>
          <span role="status" className="text-muted">
            {save.isSuccess && !isChanged ? 'Saved.' : ''}
          </span>
        </div>
      )}
    </form>
  )
}
