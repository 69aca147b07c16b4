// Whether the monitor has something that nobody has dealt with.

import { useQuery } from '@tanstack/react-query'
import { count } from '../../ui/amount'
import { anomaliesOpen, suggestions } from './queries'

/** In words; nothing where there is nothing. */
export function useUnseen(): string | undefined {
  const anomalies = useQuery(anomaliesOpen()).data?.items.length ?? 0
  const waiting = useQuery(suggestions()).data?.items.length ?? 0
  const words = [anomalies > 0 && count(anomalies, 'open anomaly', 'open anomalies'), waiting > 0 && `${count(waiting, 'suggestion')} to decide`]
  return words.filter(Boolean).join(', ') || undefined
}
