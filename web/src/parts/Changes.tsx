// The files that a sandbox changed and their diffs, as the pages of the sandbox and of its task show them.

import { useQueries, queryOptions } from '@tanstack/react-query'
import { memo, useState, type Ref } from 'react'
import { api, ask } from '../api/client'
import type { ChangedFile } from '../live/facts'
import { flag, number, text } from '../live/fields'
import type { LogEvent } from '../live/log'
import { count } from '../ui/amount'
import { Counts } from '../ui/Counts'
import { DiffView, type DiffHandle, type DiffPart } from '../ui/DiffView'
import { Empty, ErrorPanel, Skeleton } from '../ui/panels'
import { nameOf } from '../ui/plain'
import { clockSeconds } from '../ui/time'
import { FileList } from './FileList'

/** So many edits of one file are shown together; of more, the last ones. */
const TOGETHER_MAX = 50

type Props = {
  sandboxId: string
  files: readonly ChangedFile[]
  /** The chosen file, and which of its edits; all of them where none is chosen. */
  file: string | undefined
  event: number | undefined
  onChoose: (file: string, event: number | undefined) => void
  ref?: Ref<DiffHandle>
}

export const Changes = memo(function Changes({ sandboxId, files, file, event, onChoose, ref }: Props) {
  if (files.length === 0) return <Empty title="No file has changed yet." />
  const chosen = files.find((one) => one.path === file) ?? files[0]
  const edit = chosen?.edits.find((one) => one.seq === event)
  const added = files.reduce((sum, one) => sum + one.added, 0)
  const removed = files.reduce((sum, one) => sum + one.removed, 0)
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <p className="flex h-8 shrink-0 items-center gap-3 border-b border-line px-3 text-xs text-muted">
        {count(files.length, 'file')} changed <Counts added={added} removed={removed} />
      </p>
      <FileList files={files} chosen={chosen} onChoose={(path) => onChoose(path, undefined)} />
      {chosen && (
        <Edits
          key={`${chosen.path} ${edit?.seq ?? ''}`}
          sandboxId={sandboxId}
          file={chosen}
          edit={edit}
          {...(ref && { ref })}
          onChoose={(seq) => onChoose(chosen.path, seq)}
        />
      )}
    </div>
  )
})

type EditsProps = {
  sandboxId: string
  file: ChangedFile
  edit: LogEvent | undefined
  onChoose: (seq: number | undefined) => void
  ref?: Ref<DiffHandle>
}

function Edits({ sandboxId, file, edit, onChoose, ref }: EditsProps) {
  const shown = edit ? [edit] : file.edits.slice(-TOGETHER_MAX)
  const answers = useQueries({ queries: shown.map((one) => ({ ...editDiff(sandboxId, one), enabled: isElsewhere(one) })) })
  const failed = answers.find((answer) => answer.error)
  const isLoading = shown.some((one, n) => isElsewhere(one) && answers[n]?.isPending)
  const isCut = shown.some((one, n) => text(one.data, 'full_diff') === undefined && answers[n]?.data === undefined)
  const parts = useSame(
    shown.map((one, n): DiffPart => ({
      text: text(one.data, 'full_diff') ?? answers[n]?.data?.full_diff ?? text(one.data, 'diff_preview') ?? '',
      ...(shown.length > 1 && { title: title(file.edits, one) }),
    })),
  )
  const picker = (
    <>
      <span className="min-w-0 font-mono break-all text-fg">{nameOf(file.path)}</span>
      <Picker edits={file.edits} edit={edit} onChoose={onChoose} />
    </>
  )
  if (isLoading) return <Skeleton rows={6} label="Loading the diff" />
  return (
    <>
      {failed?.error && <ErrorPanel error={failed.error} onRetry={() => void failed.refetch()} />}
      {parts.every((part) => part.text === '') ? (
        <Empty title="There is no diff of this change." />
      ) : (
        <>
          {isCut && <p className="px-3 py-1 text-xs text-warn">Only the beginning of the diff is there.</p>}
          <DiffView parts={parts} aside={picker} {...(ref && { ref })} />
        </>
      )}
    </>
  )
}

/** The same array while what is in it is the same: a diff is parsed once, not with every event that comes. */
function useSame(parts: DiffPart[]): DiffPart[] {
  const [held, setHeld] = useState(parts)
  const isSame = held.length === parts.length && held.every((part, n) => part.text === parts[n]?.text && part.title === parts[n]?.title)
  if (!isSame) setHeld(parts)
  return isSame ? held : parts
}

type PickerProps = { edits: readonly LogEvent[]; edit: LogEvent | undefined; onChoose: (seq: number | undefined) => void }

function Picker({ edits, edit, onChoose }: PickerProps) {
  if (edits.length < 2) return null
  return (
    <label className="flex items-center gap-2 text-muted">
      Edit
      <select
        value={edit?.seq ?? ''}
        onChange={(event) => onChoose(event.target.value === '' ? undefined : Number(event.target.value))}
        className="h-7 max-w-60 rounded border border-line-strong bg-surface px-1 text-fg"
      >
        <option value="">all {edits.length}, one below the other</option>
        {edits.map((one) => (
          <option key={one.seq} value={one.seq}>
            {title(edits, one)}, +{number(one.data, 'lines_added') ?? 0} −{number(one.data, 'lines_removed') ?? 0}
          </option>
        ))}
      </select>
    </label>
  )
}

function title(edits: readonly LogEvent[], edit: LogEvent | undefined): string {
  return edit ? `Edit ${edits.indexOf(edit) + 1} of ${edits.length}, ${clockSeconds(new Date(edit.at))}` : ''
}

/** A small diff comes with its event; a large one is asked for. */
function isElsewhere(event: LogEvent): boolean {
  return text(event.data, 'full_diff') === undefined && flag(event.data, 'full_diff_available') !== false
}

/** A diff never changes. */
function editDiff(sandboxId: string, event: LogEvent) {
  const path = { id: sandboxId, event_id: `evt-${event.position}` }
  return queryOptions({
    queryKey: ['sandbox', sandboxId, 'diff', path.event_id],
    queryFn: ({ signal }) => ask(api.GET('/api/v1/sandboxes/{id}/diffs/{event_id}', { params: { path }, signal })),
    staleTime: Number.POSITIVE_INFINITY,
  })
}
