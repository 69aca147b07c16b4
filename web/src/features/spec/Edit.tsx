import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { SpecDetail, SpecPhase } from '../../api/types'
import { Button } from '../../ui/Button'
import { AreaField, TextField } from '../../ui/Field'
import { ErrorPanel } from '../../ui/panels'
import { afterEdit, staleWords, TITLES } from './phase'
import { specEdit } from './queries'

const ROWS = 24

type Props = { spec: SpecDetail; phase: SpecPhase; output: unknown; onDone: () => void }

/** The output as it is stored. What is saved is held to the same shape and judged in the same way as an agent's. */
export function Edit({ spec, phase, output, onDone }: Props) {
  const [text, setText] = useState(() => JSON.stringify(output, null, 2))
  const [comment, setComment] = useState('')
  // What was seen when the editing began: a change in between is a conflict, and not overwritten.
  const [version] = useState(spec.version)
  const queries = useQueryClient()
  const read = readOutput(text)
  const save = useMutation({
    mutationFn: (changed: Record<string, unknown>) => specEdit({ id: spec.id, version, phase }, changed, comment.trim()),
    onSuccess: onDone,
    onSettled: () => queries.invalidateQueries({ queryKey: ['spec', spec.id] }),
  })
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        if (read.kind === 'output') save.mutate(read.output)
      }}
      className="flex flex-col gap-3 px-3 py-3"
    >
      <AreaField
        label={`${TITLES[phase]}, as JSON`}
        required
        isCode
        rows={ROWS}
        value={text}
        onChange={setText}
        error={read.kind === 'wrong' ? read.words : undefined}
      />
      <TextField label="Why" value={comment} onChange={setComment} hint="Is kept with your name in the history." />
      <p className="rounded-lg bg-warn-soft px-3 py-2 text-warn">
        {staleWords(spec, phase)} {afterEdit(spec, phase)}
      </p>
      {save.error && (
        <div className="-m-3">
          <ErrorPanel error={save.error} />
        </div>
      )}
      <div className="flex gap-2">
        <Button look="main" type="submit" disabled={save.isPending || read.kind === 'wrong'}>
          {save.isPending ? 'Saving…' : 'Save'}
        </Button>
        <Button onClick={onDone}>Leave it as it was</Button>
      </div>
    </form>
  )
}

type Read = { kind: 'output'; output: Record<string, unknown> } | { kind: 'wrong'; words: string }

export function readOutput(text: string): Read {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      return { kind: 'output', output: value as Record<string, unknown> }
    }
    return { kind: 'wrong', words: 'It has to be one JSON object.' }
  } catch (error) {
    return { kind: 'wrong', words: `Not JSON: ${error instanceof Error ? error.message : String(error)}` }
  }
}
