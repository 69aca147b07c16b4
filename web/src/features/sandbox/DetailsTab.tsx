import type { ReactNode } from 'react'
import type { Sandbox, Task } from '../../api/types'
import { array, text } from '../../live/fields'
import { bytes } from '../../ui/figures'
import { nameOf, oneLine, plain } from '../../ui/plain'
import { whole } from '../../ui/time'

/** What is known of the sandbox and its task, whole: ids, times, layers of isolation, what was kept. */
export function DetailsTab({ sandbox, task }: { sandbox: Sandbox | undefined; task: Task | null | undefined }) {
  const layers = array(sandbox?.isolation, 'layers')
  return (
    <div
      role="region"
      aria-label="Details"
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard
      tabIndex={0}
      className="min-h-0 flex-1 overflow-auto p-3"
    >
      {task && (
        <Part title="Task">
          <Line name="id">{task.id}</Line>
          <Line name="status">{task.waiting_reason ? `${task.status}: ${plain(task.waiting_reason)}` : task.status}</Line>
          <Line name="what to do">{plain(task.description)}</Line>
          <Line name="attempts">{`${task.retry_count + 1} of ${task.max_retries + 1}`}</Line>
          <Line name="proof">{text(task.result, 'verification')}</Line>
          <Line name="error">{task.error_message && plain(task.error_message)}</Line>
        </Part>
      )}
      {sandbox && (
        <Part title="Sandbox">
          <Line name="id">{sandbox.id}</Line>
          <Line name="provider">{sandbox.provider}</Line>
          <Line name="project">{sandbox.project_id}</Line>
          <Line name="branch">{sandbox.branch_name && nameOf(sandbox.branch_name)}</Line>
          <Line name="started from">{sandbox.base_commit && nameOf(sandbox.base_commit)}</Line>
          <Line name="kept">{keptWords(sandbox)}</Line>
          <Line name="set aside">{asideWords(sandbox)}</Line>
          <Line name="ordered">{time(sandbox.created_at)}</Line>
          <Line name="started">{time(sandbox.started_at)}</Line>
          <Line name="ended">{time(sandbox.ended_at)}</Line>
          <Line name="lease until">{time(sandbox.lease_expires_at)}</Line>
          <Line name="in the way">{sandbox.place_error && sandbox.place_error !== sandbox.rescue?.error && plain(sandbox.place_error)}</Line>
          <Line name="not kept">{sandbox.rescue && `${plain(sandbox.rescue.error)} (${sandbox.rescue.tries} tries)`}</Line>
        </Part>
      )}
      {sandbox?.kept && <LeftOut kept={sandbox.kept} />}
      {layers.length > 0 && (
        <Part title="Isolation">
          {layers.map((layer) => {
            const name = text(layer, 'layer') ?? ''
            return (
              <Line key={name} name={oneLine(name, 60).replaceAll('_', ' ')}>
                {`${text(layer, 'status') ?? ''}${text(layer, 'detail') ? `: ${plain(text(layer, 'detail') ?? '')}` : ''}`}
              </Line>
            )
          })}
        </Part>
      )}
    </div>
  )
}

function keptWords({ kept }: Sandbox): string | undefined {
  if (!kept) return undefined
  if (!kept.kept) return 'nothing beyond what it started from'
  return [kept.ref && nameOf(kept.ref), kept.commit?.slice(0, 12), count(kept.files)].filter(Boolean).join(' · ')
}

function asideWords({ kept }: Sandbox): string | undefined {
  const aside = kept?.set_aside
  if (!aside) return undefined
  const stored = aside.files === 1 ? '1 file with a name that Git rejects, stored under a number' : `${aside.files} files with names that Git rejects, stored under numbers`
  return `${stored}; INDEX lists the original names: ${nameOf(aside.ref)} at ${aside.commit.slice(0, 12)}`
}

function count(files: number): string {
  return `${files} ${files === 1 ? 'file' : 'files'}`
}

/** What could not be kept, with the reason, and what else there is to say about the rest. */
function LeftOut({ kept }: { kept: NonNullable<Sandbox['kept']> }) {
  const { set_aside, left_out = [], left_out_files = 0, left_out_bytes = 0, notes = [] } = kept
  const beyond = left_out_files - left_out.length
  return (
    <>
      {set_aside && (
        <Part title="Set aside under numbers">
          {set_aside.listed?.map((one) => (
            <Line key={one.file} name={one.file}>
              {`${nameOf(one.path)}: ${plain(one.reason)}`}
            </Line>
          ))}
        </Part>
      )}
      {left_out_files > 0 && (
        <Part title={`Left out: ${count(left_out_files)}, ${bytes(left_out_bytes)}`}>
          {left_out.map((left) => (
            <Line key={left.path} name={bytes(left.bytes)}>
              {`${nameOf(left.path)}: ${plain(left.reason)}`}
            </Line>
          ))}
          {beyond > 0 && <Line name="and more">{`${count(beyond)} not listed`}</Line>}
        </Part>
      )}
      {notes.length > 0 && (
        <Part title="Notes on what was kept">
          {notes.map((note, n) => (
            <Line key={note} name={`${n + 1}`}>
              {plain(note)}
            </Line>
          ))}
        </Part>
      )}
    </>
  )
}

function time(at: string | null | undefined): string | undefined {
  return at ? whole(new Date(at)) : undefined
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="pb-4">
      <h2 className="pb-1 text-base font-semibold">{title}</h2>
      <dl className="grid grid-cols-[8rem_minmax(0,1fr)] gap-x-3 gap-y-0.5">{children}</dl>
    </section>
  )
}

/** Nothing for what is not known. */
function Line({ name, children }: { name: string; children: string | null | undefined | false }) {
  if (!children) return null
  return (
    <>
      <dt className="text-subtle">{name}</dt>
      <dd className="untrusted">{children}</dd>
    </>
  )
}
