import { useMutation, useQueryClient } from '@tanstack/react-query'
import { CirclePause, OctagonX } from 'lucide-react'
import { useState } from 'react'
import { useSession } from '../../api/session'
import type { Sandbox } from '../../api/types'
import { Button } from '../../ui/Button'
import { Confirm } from '../../ui/Confirm'
import { nameOf } from '../../ui/plain'
import { messageList, messageSend, sandboxOne, sandboxStop } from './queries'

/** What a person can do to a sandbox that is alive; nothing for one who may only look. */
export function Actions({ sandbox }: { sandbox: Sandbox }) {
  const who = useSession()
  const [asking, setAsking] = useState<'interrupt' | 'stop'>()
  const isAlive = sandbox.status === 'creating' || sandbox.status === 'running'
  if (!isAlive || who?.role === 'viewer') return null
  const close = () => setAsking(undefined)
  return (
    <div className="flex gap-2">
      <Button onClick={() => setAsking('interrupt')}>
        <CirclePause size={14} aria-hidden />
        Interrupt
      </Button>
      <Button onClick={() => setAsking('stop')}>
        <OctagonX size={14} aria-hidden className="text-bad" />
        Stop
      </Button>
      {asking === 'interrupt' && <Interrupt sandbox={sandbox} name={who?.name ?? ''} onClose={close} />}
      {asking === 'stop' && <Stop sandbox={sandbox} onClose={close} />}
    </div>
  )
}

function Interrupt({ sandbox, name, onClose }: { sandbox: Sandbox; name: string; onClose: () => void }) {
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

function Stop({ sandbox, onClose }: { sandbox: Sandbox; onClose: () => void }) {
  const queries = useQueryClient()
  const stop = useMutation({
    mutationFn: () => sandboxStop(sandbox.id),
    onSuccess: onClose,
    onSettled: () => queries.invalidateQueries({ queryKey: sandboxOne(sandbox.id).queryKey }),
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
