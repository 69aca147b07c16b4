// Tasks of a spec that may exist already, each with those that are offered in its place.

import type { SpecDetail, SpecDuplicate } from '../../api/types'

export type Offer = {
  symbol: string
  task: string
  title: string
  /** The most alike first. */
  existing: SpecDuplicate[]
  /** Nothing until somebody decides; of several that are offered, at most one is linked. */
  decided: SpecDuplicate | undefined
}

export function offersOf({ duplicates }: Pick<SpecDetail, 'duplicates'>): Offer[] {
  const bySymbol = new Map<string, Offer>()
  for (const one of duplicates) {
    const offer = bySymbol.get(one.symbol) ?? { symbol: one.symbol, task: one.task_id, title: one.title, existing: [], decided: undefined }
    offer.existing.push(one)
    if (one.decision === 'link' || (one.decision && !offer.decided)) offer.decided = one
    bySymbol.set(one.symbol, offer)
  }
  return [...bySymbol.values()]
}

export function openDuplicates(spec: Pick<SpecDetail, 'duplicates'>): Offer[] {
  return offersOf(spec).filter(({ decided }) => !decided)
}

/** Nothing can build on what is over without having come to its end. */
export function mayLink({ existing_status }: Pick<SpecDuplicate, 'existing_status'>): boolean {
  return existing_status !== 'failed' && existing_status !== 'cancelled'
}
