import { useMemo, useState } from 'react'
import { Fold, type Folding } from '../../live/fold'
import type { LogEvent } from '../../live/log'

/** What the events add up to, kept up as they come. */
export function useFold<T>(begin: () => Folding<T>, events: readonly LogEvent[]): T {
  const [fold] = useState(() => new Fold(begin))
  return useMemo(() => fold.update(events), [fold, events])
}
