import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { CirclePause, OctagonX } from 'lucide-react'
import { useState } from 'react'
import { useSession } from '../../api/session'
import type { Sandbox, Task } from '../../api/types'
import { usePageActions } from '../../app/actions'
import { useKeys } from '../../app/keys'
import { Button } from '../../ui/Button'
import { Confirm } from '../../ui/Confirm'
import { copy } from '../../ui/Copy'
import { Dialog } from '../../ui/Dialog'
import { Menu } from '../../ui/Menu'
import { ErrorPanel } from '../../ui/panels'
import { nameOf } from '../../ui/plain'
import { Decide } from './Decide'
import { isAlive } from './list'
import { messageList, messageSend, sandboxOne, sandboxStop, taskAgain } from './queries'
import { transcriptDownload } from './transcript'

/** Shows the same in a terminal. */
export const commandFor = (id: string) => `omoi sandbox events ${id} --follow`

/** What a person can do to a sandbox that is alive, and with what it left behind; one who may only look can copy. */
export function Actions({ sandbox, task }: { sandbox: Sandbox; task: Task | null | undefined }) {
  const who = useSession()
  const navigate = useNavigate()
  const [asking, setAsking] = useState<'interrupt' | 'stop'>()
  const [manual, setManual] = useState<string>()
  const download = useMutation({ mutationFn: () => transcriptDownload(sandbox.id) })
  const retry = useMutation({
    mutationFn: taskAgain,
    onSuccess: (id) => void navigate({ to: '/sandboxes/$id', params: { id } }),
  })
  const mayAct = who?.role !== 'viewer'
  const canSteer = isAlive(sandbox) && mayAct
  const canRetry = mayAct && task && (task.status === 'failed' || task.status === 'cancelled')
  const close = () => setAsking(undefined)
  const copyOr = (text: string) => void copy(text).then((isDone) => !isDone && setManual(text))

  const interrupt = { label: 'Interrupt the agent', keys: 'i', run: () => setAsking('interrupt') }
  const stop = { label: 'Stop this sandbox', run: () => setAsking('stop') }
  const again = { label: 'Retry the task', run: () => task && retry.mutate(task) }
  const link = { label: 'Copy the link', keys: 'y', run: () => copyOr(location.href) }
  const others = [
    ...(canRetry ? [again] : []),
    link,
    { label: 'Copy the CLI command', run: () => copyOr(commandFor(sandbox.id)) },
    { label: 'Copy the id', run: () => copyOr(sandbox.id) },
    { label: 'Download the transcript', run: () => download.mutate() },
  ]
  usePageActions([...(canSteer ? [interrupt, stop] : []), ...others])
  useKeys({ i: canSteer ? interrupt.run : undefined, y: link.run })

  return (
    <div className="flex flex-wrap items-center gap-2">
      {canSteer && (
        <>
          <Button onClick={interrupt.run}>
            <CirclePause size={14} aria-hidden />
            Interrupt
          </Button>
          <Button onClick={stop.run}>
            <OctagonX size={14} aria-hidden className="text-bad" />
            Stop
          </Button>
        </>
      )}
      {mayAct && sandbox.place === 'unkept' && <Decide sandbox={sandbox} />}
      <Menu label="More actions" items={others.map(({ label, run }) => ({ label, onChoose: run }))} />
      {asking === 'interrupt' && <Interrupt sandbox={sandbox} onClose={close} />}
      {asking === 'stop' && <Stop sandbox={sandbox} onClose={close} />}
      {manual !== undefined && (
        <Dialog title="Copy this" onClose={() => setManual(undefined)}>
          <p className="text-muted">The browser does not let this page use the clipboard.</p>
          <code className="untrusted rounded bg-sunken p-2 font-mono text-xs break-all select-all">{nameOf(manual)}</code>
        </Dialog>
      )}
      {(download.error ?? retry.error) && (
        <Dialog
          title={download.error ? 'No transcript' : 'Not started again'}
          onClose={() => {
            download.reset()
            retry.reset()
          }}
        >
          <ErrorPanel error={(download.error ?? retry.error) as Error} />
        </Dialog>
      )}
    </div>
  )
}

export function Interrupt({ sandbox, onClose }: { sandbox: Sandbox; onClose: () => void }) {
  const name = useSession()?.name
  const queries = useQueryClient()
  const send = useMutation({
    mutationFn: () => messageSend(sandbox.id, `Interrupted by ${name || 'a person'}.`, 'interrupt'),
    onSuccess: onClose,
    onSettled: () => queries.invalidateQueries({ queryKey: messageList(sandbox.id).queryKey }),
  })
  return (
    <Confirm title="Interrupt the agent?" action="Interrupt" isBusy={send.isPending} error={send.error} onConfirm={() => send.mutate()} onClose={onClose}>
      <p>What runs now is stopped, with all its processes. The sandbox stays, its files are kept as they are, and the agent waits for your next message.</p>
    </Confirm>
  )
}

export function Stop({ sandbox, onClose }: { sandbox: Sandbox; onClose: () => void }) {
  const queries = useQueryClient()
  const stop = useMutation({
    mutationFn: () => sandboxStop(sandbox.id),
    onSuccess: onClose,
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ['sandboxes'] })
      return queries.invalidateQueries({ queryKey: sandboxOne(sandbox.id).queryKey })
    },
  })
  return (
    <Confirm title="Stop this sandbox?" action="Stop" isBusy={stop.isPending} error={stop.error} onConfirm={() => stop.mutate()} onClose={onClose}>
      <p>
        Its work is kept first: commits and changed files, on{' '}
        {sandbox.branch_name ? <code className="untrusted font-mono">{nameOf(sandbox.branch_name)}</code> : 'its branch'} or under a preserved reference.
      </p>
      <p>The agent does not go on, and what it has in mind is lost. The task is cancelled, and can be retried.</p>
    </Confirm>
  )
}
