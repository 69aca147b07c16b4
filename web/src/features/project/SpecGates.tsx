import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useSession } from '../../api/session'
import type { SpecGates as Gates, SpecPhase } from '../../api/types'
import { GateChoice } from '../../parts/GateChoice'
import { phaseNames, PHASES } from '../../parts/phases'
import { Button } from '../../ui/Button'
import { ErrorPanel, Skeleton } from '../../ui/panels'
import { Section } from '../../ui/Section'
import { projectGates, projectGatesSet } from './queries'

/** Which phases of the project's specs wait for a person. */
export function SpecGates({ id }: { id: string }) {
  const gates = useQuery(projectGates(id))
  return (
    <Section title="Specs wait for a person at">
      {gates.isPending && <Skeleton rows={2} label="Loading the gates" />}
      {gates.error && <ErrorPanel error={gates.error} onRetry={() => void gates.refetch()} />}
      {/* What comes meanwhile is shown, and what was ticked before it is not saved over it. */}
      {gates.data && <Choice key={JSON.stringify(gates.data)} id={id} gates={gates.data} />}
    </Section>
  )
}

function Choice({ id, gates }: { id: string; gates: Gates }) {
  const who = useSession()
  const queries = useQueryClient()
  const said = gates.gates ?? undefined
  const [chosen, setChosen] = useState<SpecPhase[] | undefined>(said)
  const save = useMutation({
    mutationFn: () => projectGatesSet(id, chosen ?? null),
    onSettled: () => queries.invalidateQueries({ queryKey: ['projects'] }),
  })
  const isChanged = (chosen === undefined) !== (said === undefined) || phaseNames(chosen ?? []) !== phaseNames(said ?? [])
  const mayChange = who?.role !== 'viewer'
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        save.mutate()
      }}
      className="flex flex-col gap-2 px-3 py-2"
    >
      <fieldset disabled={save.isPending || !mayChange} className="flex flex-col">
        <legend className="sr-only">Who says where specs wait</legend>
        <label className="flex min-h-7 items-center gap-1.5">
          <input
            type="radio"
            name="gates"
            checked={chosen === undefined}
            onChange={() => setChosen(undefined)}
            className="size-4 accent-(--accent)"
          />
          As Omoi does{said === undefined && `: ${phaseNames(gates.effective)}`}
        </label>
        <label className="flex min-h-7 items-center gap-1.5">
          <input
            type="radio"
            name="gates"
            checked={chosen !== undefined}
            onChange={() => setChosen(gates.effective)}
            className="size-4 accent-(--accent)"
          />
          At the phases chosen here
        </label>
        {chosen && (
          <div className="pl-6">
            <GateChoice legend="Phases that wait for a person" phases={PHASES} chosen={chosen} onChange={setChosen} />
            {chosen.length === 0 && <p className="text-xs text-warn">None: specs go from an idea to running tasks without asking anybody.</p>}
          </div>
        )}
      </fieldset>
      <p className="text-xs text-muted">Specs that say it themselves are not concerned.</p>
      {save.error && (
        <div className="-mx-3">
          <ErrorPanel error={save.error} />
        </div>
      )}
      {mayChange && (
        <div>
          <Button type="submit" disabled={!isChanged || save.isPending}>
            {save.isPending ? 'Saving…' : 'Save the gates'}
          </Button>
        </div>
      )}
    </form>
  )
}
