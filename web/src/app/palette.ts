// What the palette finds: pure, so that the rules can be tested as plain code.

/** `also` is searched and not shown. */
export type Found = { id: string; group: string; label: string; hint?: string; also?: string; run: () => void }

export const GROUP_MAX = 12

/** Every word must occur in the label, the hint or what else it is known by. What begins with the query comes first, the rest stays in order. */
export function matching(items: readonly Found[], query: string): Found[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean)
  const first = words.join(' ')
  const fits = items.filter(({ label, hint, also }) => {
    const text = `${label} ${hint ?? ''} ${also ?? ''}`.toLowerCase()
    return words.every((word) => text.includes(word))
  })
  const begins = (item: Found) => (first !== '' && item.label.toLowerCase().startsWith(first) ? 0 : 1)
  const sorted = fits.toSorted((a, b) => begins(a) - begins(b))
  return groupsOf(sorted).flatMap(([, members]) => members.slice(0, GROUP_MAX))
}

/** In the order in which groups come first. */
export function groupsOf(items: readonly Found[]): [string, Found[]][] {
  const groups = new Map<string, Found[]>()
  for (const item of items) groups.set(item.group, [...(groups.get(item.group) ?? []), item])
  return [...groups]
}

export type IdKind = 'task' | 'sandbox' | 'project'

const PREFIXES: Record<string, IdKind> = { task: 'task', sbx: 'sandbox', prj: 'project' }

/** What a pasted id names, whether or not it is in any list. */
export function idKind(query: string): IdKind | undefined {
  const [, prefix] = /^(task|sbx|prj)-[0-9a-z-]{4,80}$/i.exec(query.trim()) ?? []
  return prefix ? PREFIXES[prefix.toLowerCase()] : undefined
}
