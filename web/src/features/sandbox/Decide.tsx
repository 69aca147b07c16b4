import { useMutation, useQueryClient } from '@tanstack/react-query'
import { ArchiveRestore, Trash2 } from 'lucide-react'
import { useState } from 'react'
import type { Sandbox } from '../../api/types'
import { usePageActions } from '../../app/actions'
import { Button } from '../../ui/Button'
import { Confirm } from '../../ui/Confirm'
import { bytes } from '../../ui/figures'
import { nameOf, plain } from '../../ui/plain'
import { sandboxDiscard, sandboxOne, sandboxRescue } from './queries'

/** What a person decides about work that could not be kept. */
export function Decide({ sandbox }: { sandbox: Sandbox }) {
  const [asking, setAsking] = useState<'rescue' | 'discard'>()
  const rescue = { label: 'Try again to keep the work', run: () => setAsking('rescue') }
  const discard = { label: 'Discard the work', run: () => setAsking('discard') }
  usePageActions([rescue, discard])
  const close = () => setAsking(undefined)
  return (
    <>
      <Button onClick={rescue.run}>
        <ArchiveRestore size={14} aria-hidden />
        Keep it
      </Button>
      <Button onClick={discard.run}>
        <Trash2 size={14} aria-hidden className="text-bad" />
        Discard
      </Button>
      {asking === 'rescue' && <Rescue sandbox={sandbox} onClose={close} />}
      {asking === 'discard' && <Discard sandbox={sandbox} onClose={close} />}
    </>
  )
}

type Props = { sandbox: Sandbox; onClose: () => void }

function useDecision(sandbox: Sandbox, decide: (id: string) => Promise<unknown>, onClose: () => void) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: () => decide(sandbox.id),
    onSuccess: onClose,
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ['sandboxes'] })
      return queries.invalidateQueries({ queryKey: sandboxOne(sandbox.id).queryKey })
    },
  })
}

function Rescue({ sandbox, onClose }: Props) {
  const rescue = useDecision(sandbox, sandboxRescue, onClose)
  return (
    <Confirm title="Try again to keep the work?" action="Keep it" isBusy={rescue.isPending} error={rescue.error} onConfirm={() => rescue.mutate()} onClose={onClose}>
      <p>Nothing is deleted. The server gave up because of this problem, which should be solved first:</p>
      <p className="untrusted">{plain(sandbox.rescue?.error ?? '')}</p>
    </Confirm>
  )
}

function Discard({ sandbox, onClose }: Props) {
  const discard = useDecision(sandbox, sandboxDiscard, onClose)
  const { rescue, kept, branch_name, base_commit } = sandbox
  return (
    <Confirm title="Discard the work for good?" action="Discard" isBusy={discard.isPending} error={discard.error} onConfirm={() => discard.mutate()} onClose={onClose}>
      <p>The disk of this sandbox is removed{rescue?.disk_bytes ? ` (${bytes(rescue.disk_bytes)})` : ''}.</p>
      {kept ? (
        <p>
          {kept.left_out_files === 1 ? 'One file is lost' : `${kept.left_out_files ?? 0} files are lost`} for good; everything else is kept on{' '}
          <code className="untrusted font-mono">{nameOf(kept.ref ?? 'its branch')}</code>.
        </p>
      ) : (
        <p>
          Everything that was not pushed to {branch_name ? <code className="untrusted font-mono">{nameOf(branch_name)}</code> : 'its branch'} is lost
          {base_commit && (
            <>
              : commits and changed files since <code className="untrusted font-mono">{nameOf(base_commit.slice(0, 12))}</code>
            </>
          )}
          .
        </p>
      )}
      <p className="untrusted">It could not be kept: {plain(rescue?.error ?? '')}</p>
    </Confirm>
  )
}
