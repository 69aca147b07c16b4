// What the graph keeps in its address.

export type GraphSearch = {
  scope?: 'ticket' | undefined
  /** Of the project, or of the ticket. */
  id?: string | undefined
  /** The chosen task. */
  focus?: string | undefined
  view?: 'list' | undefined
  /** Whether the chain that takes longest stands out. */
  path?: true | undefined
  /** Whether completed tasks are left out. */
  hide?: true | undefined
}

export function asGraphSearch(search: Record<string, unknown>): GraphSearch {
  return {
    ...(search.scope === 'ticket' && { scope: 'ticket' as const }),
    ...(typeof search.id === 'string' && search.id && { id: search.id }),
    ...(typeof search.focus === 'string' && search.focus && { focus: search.focus }),
    ...(search.view === 'list' && { view: 'list' as const }),
    ...(search.path === true && { path: true as const }),
    ...(search.hide === true && { hide: true as const }),
  }
}
