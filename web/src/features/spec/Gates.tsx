import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useSession } from '../../api/session'
import type { SpecDetail, SpecPhase } from '../../api/types'
import { GateChoice } from '../../parts/GateChoice'
import { phaseNames } from '../../parts/phases'
import { Button } from '../../ui/Button'
import { ErrorPanel } from '../../ui/panels'
import { Section } from '../../ui/Section'
import { specGates } from './queries'

/** Which phases of this spec wait for a person. */
export function Gates({ spec }: { spec: SpecDetail }) {
  const who = useSession()
  const [isChoosing, setIsChoosing] = useState(false)
  const mayChoose = who?.role !== 'viewer' && !spec.archived
  return (
    <Section
      title="Waits for a person at"
      aside={
        mayChoose &&
        !isChoosing && (
          <>
            <span className="flex-1" />
            <Button onClick={() => setIsChoosing(true)}>Choose</Button>
          </>
        )
      }
    >
      {isChoosing && mayChoose ? (
        <Choice spec={spec} onDone={() => setIsChoosing(false)} />
      ) : (
        <p className="px-3 py-2">{phaseNames(spec.gates.filter((phase) => spec.flow_phases.includes(phase)))}</p>
      )}
    </Section>
  )
}

function Choice({ spec, onDone }: { spec: SpecDetail; onDone: () => void }) {
  const queries = useQueryClient()
  // The version that was seen: what somebody else decides meanwhile is not undone.
  const [seen] = useState(spec)
  const [chosen, setChosen] = useState<SpecPhase[]>(seen.gates)
  const save = useMutation({
    mutationFn: () => specGates(seen.id, seen.version, chosen),
    onSuccess: onDone,
    onSettled: () => queries.invalidateQueries({ queryKey: ['spec', seen.id] }),
  })
  /** What its flow has not is left as it is. */
  const change = (now: SpecPhase[]) => setChosen([...now, ...seen.gates.filter((gate) => !seen.flow_phases.includes(gate))])
  const isChanged = phaseNames(chosen) !== phaseNames(seen.gates)
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        save.mutate()
      }}
      className="flex flex-col gap-2 px-3 py-2"
    >
      <GateChoice legend="Phases that wait for a person" phases={seen.flow_phases} chosen={chosen} onChange={change} />
      <p className="text-xs text-muted">
        Counts for what is judged from now on. What the project says no longer counts for this spec.
      </p>
      {save.error && (
        <div className="-mx-3">
          <ErrorPanel error={save.error} />
        </div>
      )}
      <div className="flex gap-2">
        <Button look="main" type="submit" disabled={save.isPending || !isChanged}>
          {save.isPending ? 'Saving…' : 'Save'}
        </Button>
        <Button onClick={onDone}>Leave it</Button>
      </div>
    </form>
  )
}
