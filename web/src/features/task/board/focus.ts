// Moves the focus between cards. It reads the page, since only the cards in sight are there.

export type Direction = 'up' | 'down' | 'left' | 'right'

export function step(direction: Direction) {
  const here = document.activeElement?.closest<HTMLElement>('[data-card]')
  const next = here ? neighbour(here, direction) : document.querySelector<HTMLElement>('[data-card]')
  const link = next?.querySelector<HTMLElement>('[data-open]')
  link?.focus()
  next?.scrollIntoView?.({ block: 'nearest', inline: 'nearest' })
}

function neighbour(here: HTMLElement, direction: Direction): HTMLElement | undefined {
  const column = here.closest('[data-column]')
  const cards = cardsOf(column ?? document)
  const at = cards.indexOf(here)
  if (direction === 'up' || direction === 'down') return cards[at + (direction === 'down' ? 1 : -1)]
  const columns = [...document.querySelectorAll('[data-column]')].filter((one) => cardsOf(one).length > 0)
  const beside = columns[columns.indexOf(column ?? columns[0] ?? document.body) + (direction === 'right' ? 1 : -1)]
  const others = beside ? cardsOf(beside) : []
  return others[Math.min(at, others.length - 1)]
}

function cardsOf(within: Element | Document): HTMLElement[] {
  return [...within.querySelectorAll<HTMLElement>('[data-card]')]
}
