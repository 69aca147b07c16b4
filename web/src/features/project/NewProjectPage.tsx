import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { asProblem } from '../../api/problem'
import { errorsOf } from '../../api/refusal'
import { Button } from '../../ui/Button'
import { TextField } from '../../ui/Field'
import { Page } from '../../ui/Page'
import { ErrorPanel } from '../../ui/panels'
import { projectCreate } from './queries'

const FIELDS = ['name', 'repository_url', 'default_branch'] as const

export function NewProjectPage({ onDone }: { onDone: (project: string) => void }) {
  const [name, setName] = useState('')
  const [repository, setRepository] = useState('')
  const [branch, setBranch] = useState('')
  const queries = useQueryClient()
  const create = useMutation({
    mutationFn: () => projectCreate(name.trim(), repository.trim(), branch.trim()),
    onSuccess: (project) => {
      void queries.invalidateQueries({ queryKey: ['projects'] })
      onDone(project.id)
    },
  })
  const errors = errorsOf(create.error ? asProblem(create.error) : undefined, FIELDS)
  return (
    <Page title="Add a project">
      <form
        onSubmit={(event) => {
          event.preventDefault()
          create.mutate()
        }}
        className="flex max-w-180 flex-col gap-4 p-4"
      >
        {errors.rest && (
          <div className="-m-3">
            <ErrorPanel error={errors.rest} />
          </div>
        )}
        <TextField label="Name" required value={name} onChange={setName} error={errors.at('name')} />
        <TextField
          label="Repository"
          required
          isCode
          value={repository}
          onChange={setRepository}
          error={errors.at('repository_url')}
          placeholder="https://forge.example/team/project.git"
          hint="An address, or the path of a repository on the server’s machine."
        />
        <TextField
          label="Default branch"
          isCode
          value={branch}
          onChange={setBranch}
          error={errors.at('default_branch')}
          placeholder="main"
        />
        <div>
          <Button look="main" type="submit" disabled={create.isPending}>
            {create.isPending ? 'Adding…' : 'Add the project'}
          </Button>
        </div>
      </form>
    </Page>
  )
}
