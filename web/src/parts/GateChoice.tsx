import type { SpecPhase } from '../api/types'
import { TITLES } from './phases'

type Props = {
  legend: string
  phases: readonly SpecPhase[]
  chosen: readonly SpecPhase[]
  onChange: (chosen: SpecPhase[]) => void
}

/** Which phases wait for a person. */
export function GateChoice({ legend, phases, chosen, onChange }: Props) {
  return (
    <fieldset className="flex flex-wrap gap-x-4">
      <legend className="sr-only">{legend}</legend>
      {phases.map((phase) => (
        <label key={phase} className="flex min-h-7 items-center gap-1.5">
          <input
            type="checkbox"
            checked={chosen.includes(phase)}
            onChange={(event) => onChange(phases.filter((one) => (one === phase ? event.target.checked : chosen.includes(one))))}
            className="size-4 accent-(--accent)"
          />
          {TITLES[phase]}
        </label>
      ))}
    </fieldset>
  )
}
