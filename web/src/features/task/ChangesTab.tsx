import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { Sandbox } from '../../api/types'
import { foldFiles } from '../../live/facts'
import { folded } from '../../live/fold'
import { ofStored } from '../../live/log'
import { Changes } from '../../parts/Changes'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { shortId } from '../../ui/plain'
import { EDITS_MAX, attemptEdits } from './queries'
import type { TaskSearch } from './search'

type Props = { taskId: string; attempts: readonly Sandbox[]; search: TaskSearch; onSearch: (change: TaskSearch) => void }

/** What one attempt changed, the newest one unless another is chosen. */
export function ChangesTab({ taskId, attempts, search, onSearch }: Props) {
  // A sandbox that runs checks changes nothing.
  const working = attempts.filter(({ stage }) => stage !== 'check')
  const chosen = working.find(({ id }) => id === search.attempt) ?? working[0]
  if (!chosen) return <Empty title="Nobody has changed anything yet." />
  return (
    <>
      {working.length > 1 && (
        <label className="flex h-9 items-center gap-2 border-b border-line px-3 text-xs text-muted">
          Attempt
          <select
            value={chosen.id}
            onChange={(event) => onSearch({ attempt: event.target.value, file: undefined, event: undefined })}
            className="h-7 rounded border border-line-strong bg-surface px-1 text-fg"
          >
            {working.map((sandbox, n) => (
              <option key={sandbox.id} value={sandbox.id}>
                {working.length - n} of {working.length}, {shortId(sandbox.id)}, {sandbox.status}
              </option>
            ))}
          </select>
        </label>
      )}
      <OfAttempt key={chosen.id} taskId={taskId} sandbox={chosen} search={search} onSearch={onSearch} />
    </>
  )
}

function OfAttempt({ taskId, sandbox, search, onSearch }: Omit<Props, 'attempts'> & { sandbox: Sandbox }) {
  const edits = useQuery(attemptEdits(taskId, sandbox.id))
  const files = useMemo(() => folded(foldFiles, (edits.data ?? []).map(ofStored).toReversed()), [edits.data])
  if (edits.isPending) return <Skeleton rows={6} label="Loading the changes" />
  if (edits.error) return <ErrorPanel error={edits.error} onRetry={() => void edits.refetch()} />
  return (
    <>
      {edits.data.length >= EDITS_MAX && <p className="px-3 py-1 text-xs text-warn">Only the last {EDITS_MAX} edits are shown.</p>}
      <div className="flex h-[70dvh] min-h-80 flex-col">
        <Changes sandboxId={sandbox.id} files={files} file={search.file} event={search.event} onChoose={(file, event) => onSearch({ file, event })} />
      </div>
    </>
  )
}
