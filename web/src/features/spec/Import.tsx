import { useMutation } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { asProblem } from '../../api/problem'
import { errorsOf } from '../../api/refusal'
import { Button } from '../../ui/Button'
import { SelectField, TextField } from '../../ui/Field'
import { ErrorPanel } from '../../ui/panels'
import { nameOf } from '../../ui/plain'
import { Section } from '../../ui/Section'
import type { FormProps } from './NewSpecPage'
import { specImport } from './queries'

const FIELDS = ['project_id', 'title'] as const

/** A spec that was written elsewhere becomes one of ours, and is judged like one. */
export function Import({ projects, wanted, onDone }: FormProps) {
  const [project, setProject] = useState((projects.find(({ id }) => id === wanted) ?? projects[0])?.id ?? '')
  const [title, setTitle] = useState('')
  const [files, setFiles] = useState<File[]>([])
  const id = useId()
  const take = useMutation({
    mutationFn: async () => specImport(project, title.trim(), await textsOf(files)),
    onSuccess: (spec) => onDone(spec.id),
  })
  const errors = errorsOf(take.error ? asProblem(take.error) : undefined, FIELDS)
  return (
    <Section title="Or import one">
      <form
        onSubmit={(event) => {
          event.preventDefault()
          take.mutate()
        }}
        className="flex flex-col gap-4 p-3"
      >
        {errors.rest && (
          <div className="-m-3">
            <ErrorPanel error={errors.rest} />
          </div>
        )}
        <div className="flex flex-col gap-1">
          <label htmlFor={id} className="font-medium">
            Files
          </label>
          <input
            id={id}
            type="file"
            multiple
            accept=".md,.json"
            aria-describedby={`${id}-hint`}
            onChange={(event) => setFiles([...(event.target.files ?? [])])}
            className="w-full rounded border border-line-strong bg-sunken p-1 text-muted"
          />
          <p id={`${id}-hint`} className="text-xs text-muted">
            All files of a folder of Kiro (requirements, design, tasks) or of spec-kit (spec, plan, tasks), with omoi.json
            where it is among them, or one JSON document.
          </p>
          {files.length > 0 && <p className="untrusted text-xs text-muted">{files.map(({ name }) => nameOf(name)).join(', ')}</p>}
        </div>
        <SelectField
          label="Project"
          required
          value={project}
          onChange={setProject}
          error={errors.at('project_id')}
          options={projects.map(({ id: value, name }) => ({ value, label: name }))}
        />
        <TextField label="Title" value={title} onChange={setTitle} error={errors.at('title')} hint="Empty takes that of the files." />
        <div>
          <Button type="submit" disabled={take.isPending || files.length === 0}>
            {take.isPending ? 'Importing…' : 'Import'}
          </Button>
        </div>
      </form>
    </Section>
  )
}

/** By path where a whole folder was chosen, else by name. */
async function textsOf(files: readonly File[]): Promise<Record<string, string>> {
  const texts = files.map(async (file) => [file.webkitRelativePath || file.name, await file.text()] as const)
  return Object.fromEntries(await Promise.all(texts))
}
