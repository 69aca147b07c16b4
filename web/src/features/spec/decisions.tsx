// What a person decides about a phase. Each names what follows before it is done, and shows the server's reason when it is refused.

import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { SpecDetail, SpecPhase } from '../../api/types'
import { Confirm } from '../../ui/Confirm'
import { AreaField } from '../../ui/Field'
import { afterApproval, staleWords, TITLES } from './phase'
import { specApprove, specExecute, specRequestChanges, type Seen } from './queries'

type Props = { spec: SpecDetail; seen: Seen; onClose: () => void }

/** Looks at the spec again whatever came of it: a refusal says that it is not as it was shown. */
function useDecision(id: string, call: () => Promise<unknown>, onClose: () => void) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: call,
    onSuccess: onClose,
    onSettled: () => queries.invalidateQueries({ queryKey: ['spec', id] }),
  })
}

export function ApproveDialog({ spec, seen, onClose }: Props) {
  const [comment, setComment] = useState('')
  const approve = useDecision(spec.id, () => specApprove(seen, comment.trim()), onClose)
  const { action, words } = afterApproval(spec, seen.phase)
  return (
    <Confirm
      title={`Approve ${TITLES[seen.phase]}?`}
      action={action}
      isBusy={approve.isPending}
      error={approve.error}
      onConfirm={() => approve.mutate()}
      onClose={onClose}
    >
      <p>{words}</p>
      <AreaField label="Comment" value={comment} onChange={setComment} hint="Is kept with your name and the time." />
    </Confirm>
  )
}

export function ChangesDialog({ spec, seen, onClose }: Props) {
  const [comment, setComment] = useState('')
  const request = useDecision(spec.id, () => specRequestChanges(seen, comment.trim()), onClose)
  const isSaid = comment.trim() !== ''
  return (
    <Confirm
      title={`Ask for changes to ${TITLES[seen.phase]}`}
      action="Send and try again"
      isBusy={request.isPending || !isSaid}
      error={request.error}
      onConfirm={() => request.mutate()}
      onClose={onClose}
    >
      <AreaField
        label="What should be different"
        required
        rows={4}
        value={comment}
        onChange={setComment}
        hint="A sentence at least: the next attempt is told your words."
      />
      <p>A sandbox starts on {TITLES[seen.phase]} again. {staleWords(spec, seen.phase)}</p>
    </Confirm>
  )
}

type RedoProps = { spec: SpecDetail; phase: SpecPhase; onClose: () => void }

export function RedoDialog({ spec, phase, onClose }: RedoProps) {
  const redo = useDecision(spec.id, () => specExecute(spec.id, phase), onClose)
  return (
    <Confirm
      title={`Redo ${TITLES[phase]}?`}
      action={`Start ${TITLES[phase]} again`}
      isBusy={redo.isPending}
      error={redo.error}
      onConfirm={() => redo.mutate()}
      onClose={onClose}
    >
      <p>A sandbox starts on it, without words of yours. {staleWords(spec, phase)} Phases before it stand.</p>
    </Confirm>
  )
}
