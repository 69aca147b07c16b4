import { useMutation, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { asProblem } from '../../api/problem'
import { errorsOf } from '../../api/refusal'
import type { Project, SpecFlow, SpecPhase } from '../../api/types'
import { GateChoice } from '../../parts/GateChoice'
import { phaseNames, PHASES } from '../../parts/phases'
import { Button } from '../../ui/Button'
import { AreaField, SelectField, TextField } from '../../ui/Field'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { Section } from '../../ui/Section'
import { Import } from './Import'
import { projectChoice, projectGates, specCreate } from './queries'

const FLOWS: Record<SpecFlow, string> = {
  full: 'Full: explore, PRD, requirements, design, tasks',
  quick: 'Quick: a small change, tasks at once',
  bugfix: 'Bugfix: reproduce, cause, fix, guard',
}
const FLOW_WORDS = Object.keys(FLOWS) as SpecFlow[]
const FIELDS = ['project_id', 'title', 'description', 'flow', 'gates'] as const
/** Small changes begin with their tasks. */
const SHORT: readonly SpecPhase[] = ['tasks', 'sync']

type Props = { project: string | undefined; onDone: (spec: string) => void }

export function NewSpecPage({ project, onDone }: Props) {
  const projects = useQuery(projectChoice())
  const open = projects.data?.items.filter(({ archived }) => !archived)
  return (
    <Page title="New spec">
      {projects.isPending && <Skeleton rows={6} label="Loading projects" />}
      {projects.error && <ErrorPanel error={projects.error} onRetry={() => void projects.refetch()} />}
      {open?.length === 0 && (
        <Empty title="A spec belongs to a project, and there is none yet.">
          <Link to="/projects/new" className="text-accent underline">
            Add a project
          </Link>
        </Empty>
      )}
      {open && open.length > 0 && (
        <div className="flex max-w-180 flex-col gap-4 p-4">
          <Write projects={open} wanted={project} onDone={onDone} />
          <Import projects={open} wanted={project} onDone={onDone} />
        </div>
      )}
    </Page>
  )
}

export type FormProps = { projects: Project[]; wanted: string | undefined; onDone: (spec: string) => void }

function Write({ projects, wanted, onDone }: FormProps) {
  const [project, setProject] = useState((projects.find(({ id }) => id === wanted) ?? projects[0])?.id ?? '')
  const [title, setTitle] = useState('')
  const [description, setDescription] = useState('')
  const [flow, setFlow] = useState<SpecFlow>('full')
  /** Nothing where the project decides. */
  const [gates, setGates] = useState<SpecPhase[]>()
  const phases = flow === 'full' ? PHASES : SHORT
  const own = gates && { gates: phases.filter((phase) => gates.includes(phase)) }
  const create = useMutation({
    mutationFn: () => specCreate({ project_id: project, title: title.trim(), description: description.trim(), flow, ...own }),
    onSuccess: (spec) => onDone(spec.id),
  })
  const errors = errorsOf(create.error ? asProblem(create.error) : undefined, FIELDS)
  return (
    <Section title="Write down the idea">
      <form
        onSubmit={(event) => {
          event.preventDefault()
          create.mutate()
        }}
        className="flex flex-col gap-4 p-3"
      >
        {errors.rest && (
          <div className="-m-3">
            <ErrorPanel error={errors.rest} />
          </div>
        )}
        <fieldset disabled={create.isPending} className="contents">
          <SelectField
            label="Project"
            required
            value={project}
            onChange={setProject}
            error={errors.at('project_id')}
            options={projects.map(({ id, name }) => ({ value: id, label: name }))}
          />
          <TextField label="Title" required value={title} onChange={setTitle} error={errors.at('title')} />
          <AreaField
            label="The idea"
            rows={7}
            value={description}
            onChange={setDescription}
            error={errors.at('description')}
            hint="What should be possible, for whom, and what does not belong to it. The repository tells the rest."
          />
          <SelectField
            label="Way"
            required
            value={flow}
            onChange={(word) => setFlow(FLOW_WORDS.find((known) => known === word) ?? 'full')}
            error={errors.at('flow')}
            options={FLOW_WORDS.map((word) => ({ value: word, label: FLOWS[word] }))}
          />
          <Gates project={project} phases={phases} chosen={gates} error={errors.at('gates')} onChange={setGates} />
        </fieldset>
        <div>
          <Button look="main" type="submit" disabled={create.isPending || title.trim() === ''}>
            {create.isPending ? 'Writing it down…' : 'Write it down'}
          </Button>
          <p className="mt-1 text-xs text-muted">Nothing runs yet: you start the first phase on its page.</p>
        </div>
      </form>
    </Section>
  )
}

type GatesProps = {
  project: string
  phases: readonly SpecPhase[]
  chosen: SpecPhase[] | undefined
  error: string | undefined
  onChange: (chosen: SpecPhase[] | undefined) => void
}

/** As the project says, unless this spec is to say it itself. */
function Gates({ project, phases, chosen, error, onChange }: GatesProps) {
  const { data } = useQuery({ ...projectGates(project), enabled: project !== '' })
  const usual = data?.effective.filter((phase) => phases.includes(phase))
  return (
    <div className="flex flex-col gap-1">
      <p className="font-medium">Waits for a person at</p>
      <label className="flex min-h-7 items-center gap-1.5">
        <input
          type="checkbox"
          checked={chosen === undefined}
          onChange={(event) => onChange(event.target.checked ? undefined : (usual ?? []))}
          className="size-4 accent-(--accent)"
        />
        As the project says{usual && `: ${phaseNames(usual)}`}
      </label>
      {chosen && <GateChoice legend="Phases that wait for a person" phases={phases} chosen={chosen} onChange={onChange} />}
      {error && <p className="untrusted text-xs text-bad">{error}</p>}
    </div>
  )
}
