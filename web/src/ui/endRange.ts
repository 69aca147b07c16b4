import type { Range, Virtualizer } from '@tanstack/react-virtual'

/** Guesses of how high a row is are wrong by so much at most, mostly. */
const MARGIN = 1.25

/**
 * The last rows, as many as fill the view: all that is wanted while a list follows its end. Without it, what comes is
 * shown only after the list has scrolled to it, which is a second rendering of everything in sight.
 */
export function endRange(list: Virtualizer<HTMLDivElement, Element>, { count }: Range): number[] {
  const px = (list.scrollRect?.height ?? 0) * MARGIN
  let [first, filled] = [count, 0]
  while (first > 0 && filled < px) {
    first -= 1
    filled += list.measurementsCache[first]?.size ?? 0
  }
  return Array.from({ length: count - first }, (_, n) => first + n)
}
