// How a windowed list follows its end: it shows the last rows whatever the scroll position says, and its own scrolling to
// them is no news to it.

import { observeElementOffset, type Range, type Virtualizer } from '@tanstack/react-virtual'

type List = Virtualizer<HTMLDivElement, Element>

/** For rows whose height is guessed: the guess is wrong by so much at most, mostly. */
export const GUESSED = 1.25

/**
 * The last rows, as many as fill the view: all that is wanted while a list follows its end. Without it, what comes is
 * shown only after the list has scrolled to it, which is a second rendering of everything in sight.
 */
export function endRange(list: List, { count }: Range, margin = 1): number[] {
  const px = (list.scrollRect?.height ?? 0) * margin
  let [first, filled] = [count, 0]
  while (first > 0 && filled < px) {
    first -= 1
    filled += list.measurementsCache[first]?.size ?? 0
  }
  return Array.from({ length: count - first }, (_, n) => first + n)
}

/** Tells the list where it is scrolled to. Nobody scrolls while it follows, so it is not rendered when that begins and ends. */
export function offsetUnless(isFollowing: () => boolean) {
  return (list: List, tell: (offset: number, isScrolling: boolean) => void) =>
    observeElementOffset(list, (offset, isScrolling) => tell(offset, isScrolling && !isFollowing()))
}
