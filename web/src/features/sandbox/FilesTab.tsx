import { useQuery } from '@tanstack/react-query'
import type { ChangedFile } from '../../live/facts'
import { flag, number, text } from '../../live/fields'
import type { LogEvent } from '../../live/log'
import { DiffView } from '../../ui/DiffView'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { nameOf } from '../../ui/plain'
import { clockSeconds } from '../../ui/time'
import { Counts } from './cards/Edit'
import { sandboxDiff } from './queries'

type Props = {
  sandboxId: string
  files: readonly ChangedFile[]
  /** The chosen file, and which of its edits. */
  file: string | undefined
  event: number | undefined
  onChoose: (file: string, event: number | undefined) => void
}

/** What is different, by file, and the diff of the chosen one. */
export function FilesTab({ sandboxId, files, file, event, onChoose }: Props) {
  if (files.length === 0) return <Empty title="No file has changed yet." />
  const chosen = files.find((one) => one.path === file) ?? files[0]
  const edit = chosen?.edits.find((one) => one.seq === event) ?? chosen?.edits.at(-1)
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <ul aria-label="Changed files" className="max-h-[35%] shrink-0 overflow-y-auto border-b border-line py-1">
        {files.map((one) => (
          <li key={one.path}>
            <button
              type="button"
              aria-current={one === chosen || undefined}
              onClick={() => onChoose(one.path, undefined)}
              className="flex min-h-7 w-full cursor-pointer items-center gap-3 px-3 text-left text-xs hover:bg-raised aria-[current]:bg-sunken"
            >
              <span className="min-w-0 flex-1 font-mono break-all">{nameOf(one.path)}</span>
              <span className="text-subtle">{nameOf(one.change)}</span>
              <Counts added={one.added} removed={one.removed} />
            </button>
          </li>
        ))}
      </ul>
      {chosen && edit && (
        <>
          <div className="flex min-h-8 shrink-0 flex-wrap items-center gap-x-3 border-b border-line px-3 text-xs">
            <span className="min-w-0 font-mono break-all">{nameOf(chosen.path)}</span>
            <EditPicker edits={chosen.edits} edit={edit} onChoose={(seq) => onChoose(chosen.path, seq)} />
          </div>
          <WholeDiff key={edit.seq} sandboxId={sandboxId} event={edit} />
        </>
      )}
    </div>
  )
}

function EditPicker({ edits, edit, onChoose }: { edits: readonly LogEvent[]; edit: LogEvent; onChoose: (seq: number) => void }) {
  if (edits.length < 2) return null
  return (
    <label className="flex items-center gap-2 text-muted">
      Edit
      <select
        value={edit.seq}
        onChange={(event) => onChoose(Number(event.target.value))}
        className="h-7 rounded border border-line-strong bg-surface px-1 text-fg"
      >
        {edits.map((one, index) => (
          <option key={one.seq} value={one.seq}>
            {index + 1} of {edits.length}, {clockSeconds(new Date(one.at))}, +{number(one.data, 'lines_added') ?? 0} −
            {number(one.data, 'lines_removed') ?? 0}
          </option>
        ))}
      </select>
    </label>
  )
}

/** A small diff comes with its event; a large one is asked for. */
function WholeDiff({ sandboxId, event }: { sandboxId: string; event: LogEvent }) {
  const own = text(event.data, 'full_diff')
  const preview = text(event.data, 'diff_preview')
  const isElsewhere = own === undefined && flag(event.data, 'full_diff_available') !== false
  const fetched = useQuery({ ...sandboxDiff(sandboxId, `evt-${event.position}`), enabled: isElsewhere })
  const diff = own ?? fetched.data?.full_diff
  if (diff !== undefined) return <DiffView text={diff} />
  if (isElsewhere && fetched.isPending) return <Skeleton rows={6} label="Loading the diff" />
  return (
    <>
      {fetched.error && <ErrorPanel error={fetched.error} onRetry={() => void fetched.refetch()} />}
      {preview === undefined ? (
        <Empty title="There is no diff of this change." />
      ) : (
        <>
          <p className="px-3 py-1 text-xs text-warn">Only the beginning of the diff is there.</p>
          <DiffView text={preview} />
        </>
      )}
    </>
  )
}
