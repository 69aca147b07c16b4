import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useSession } from '../../api/session'
import type { PhaseDetail, SpecDetail, SpecPhase } from '../../api/types'
import { Button } from '../../ui/Button'
import { Markdown } from '../../ui/Markdown'
import { ErrorPanel, Skeleton } from '../../ui/panels'
import { Quiet, Section } from '../../ui/Section'
import { Branch } from './Branch'
import { Duplicates } from './Duplicates'
import { Edit } from './Edit'
import { nextPhase, TITLES } from './phase'
import { specPhase } from './queries'
import type { SpecSearch } from './search'
import { Coverage } from './views/Coverage'
import { Design } from './views/Design'
import { NotesView } from './views/Notes'
import { Requirements } from './views/Requirements'
import { Tasks } from './views/Tasks'

type Props = { spec: SpecDetail; phase: SpecPhase; search: SpecSearch; onSearch: (change: SpecSearch) => void }

/** What an attempt at a phase has put out. */
export function Output({ spec, phase, search, onSearch }: Props) {
  const isBegun = spec.phases.some((attempt) => attempt.phase === phase)
  const shown = useQuery({ ...specPhase(spec.id, phase, search.attempt), enabled: isBegun })
  const [isEditing, setIsEditing] = useState(false)
  const who = useSession()
  const edit = () => {
    setIsEditing(true)
    // The spec may go on meanwhile; what is being written stays in sight.
    onSearch({ phase })
  }
  const mayEdit = who?.role !== 'viewer' && spec.status !== 'executing' && !spec.archived && search.attempt === undefined
  return (
    <>
      {(phase === 'tasks' || phase === 'sync') && <Duplicates spec={spec} />}
      {phase === 'sync' && <Branch spec={spec} />}
      {phase === 'sync' && <Coverage id={spec.id} />}
      <Section
        title={TITLES[phase]}
        aside={
          shown.data && (
            <>
              <Attempts detail={shown.data} chosen={search.attempt} onSearch={onSearch} />
              <span className="flex-1" />
              {hasView(phase) && !isEditing && (
                <Button onClick={() => onSearch({ view: search.view === 'document' ? undefined : 'document' })}>
                  {search.view === 'document' ? 'Part by part' : 'As a document'}
                </Button>
              )}
              {mayEdit && shown.data.output && !isEditing && <Button onClick={edit}>Edit by hand</Button>}
            </>
          )
        }
      >
        {!isBegun && <Quiet>{notBegun(spec, phase)}</Quiet>}
        {isBegun && shown.isPending && <Skeleton rows={6} label={`Loading ${TITLES[phase]}`} />}
        {shown.error && <ErrorPanel error={shown.error} onRetry={() => void shown.refetch()} />}
        {isEditing && shown.data?.output ? (
          <Edit spec={spec} phase={phase} output={shown.data.output} onDone={() => setIsEditing(false)} />
        ) : (
          shown.data && <Shown spec={spec} detail={shown.data} isDocument={search.view === 'document'} />
        )}
      </Section>
    </>
  )
}

function notBegun(spec: SpecDetail, phase: SpecPhase): string {
  const before = spec.flow_phases.find((one) => nextPhase(spec, one) === phase)
  return before ? `Not begun: it builds on ${TITLES[before]}.` : 'Not begun.'
}

type AttemptsProps = { detail: PhaseDetail; chosen: number | undefined; onSearch: (change: SpecSearch) => void }

function Attempts({ detail, chosen, onSearch }: AttemptsProps) {
  if (detail.attempts.length < 2) return null
  const last = detail.attempts.at(-1)
  return (
    <label className="flex items-center gap-2 text-muted">
      Attempt
      <select
        value={chosen ?? last}
        onChange={(event) => {
          const attempt = Number(event.target.value)
          onSearch({ attempt: attempt === last ? undefined : attempt })
        }}
        className="h-7 rounded border border-line-strong bg-surface px-1 text-fg"
      >
        {detail.attempts.map((attempt) => (
          <option key={attempt} value={attempt}>
            {attempt}
            {attempt === last ? ', the last' : ''}
          </option>
        ))}
      </select>
    </label>
  )
}

/** Whether there is more to see of it than a document. */
function hasView(phase: SpecPhase): boolean {
  return phase === 'requirements' || phase === 'design' || phase === 'tasks'
}

function Shown({ spec, detail, isDocument }: { spec: SpecDetail; detail: PhaseDetail; isDocument: boolean }) {
  if (!detail.output) {
    const words = detail.state === 'running' ? 'Nothing is put out yet: an agent works on it.' : 'This attempt has put nothing out.'
    return <Quiet>{words}</Quiet>
  }
  if (isDocument) return <Document text={detail.markdown ?? ''} />
  return (
    <>
      <View spec={spec} detail={detail} />
      <NotesView phase={detail.phase} output={detail.output} />
    </>
  )
}

function View({ spec, detail }: { spec: SpecDetail; detail: PhaseDetail }) {
  switch (detail.phase) {
    case 'requirements':
      return <Requirements output={detail.output} />
    case 'design':
      return <Design output={detail.output} />
    case 'tasks':
      return <Tasks spec={spec} output={detail.output} />
    case 'explore':
    case 'prd':
    case 'sync':
      return <Document text={detail.markdown ?? ''} />
    default:
      return detail.phase satisfies never
  }
}

function Document({ text }: { text: string }) {
  return (
    <div className="px-3 py-2">
      <Markdown text={text} />
    </div>
  )
}
