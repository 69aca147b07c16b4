// Which line of a policy a refusal is about.

/** By the line it names, or by its key: `rules[0].text`, `thresholds.same_error.times`. Counted from 1. */
export function lineOf(refusal: string, text: string): number | undefined {
  const [, named] = /\bat line (\d+)/.exec(refusal) ?? []
  if (named) return Number(named)
  const [, key] = /^policy [^,]+, ([\w.[\]]+):/.exec(refusal) ?? []
  return key === undefined ? undefined : lineOfKey(key, text.split('\n'))
}

/** Goes down the key step by step, and stays where the next step is not written. */
function lineOfKey(key: string, lines: readonly string[]): number | undefined {
  let at = -1
  for (const [, name, place] of key.matchAll(/([A-Za-z_]+)|\[(\d+)\]/g)) {
    // A key may stand in the same line as the one it belongs to: `same_error: { times: 0 }`.
    const next = name === undefined ? itemAfter(lines, at, Number(place)) : lines.findIndex((line, n) => n >= Math.max(at, 0) && new RegExp(`(^|[\\s{,-])${name}\\s*:`).test(line))
    if (next < 0) break
    at = next
  }
  return at < 0 ? undefined : at + 1
}

/** Items of the list that begins behind a line: those that stand as far in as the first. */
function itemAfter(lines: readonly string[], from: number, place: number): number {
  const first = lines.findIndex((line, n) => n > from && /^\s*- /.test(line))
  if (first < 0) return -1
  const indent = /^\s*- /.exec(lines[first] ?? '')?.[0] ?? '- '
  const items = lines.flatMap((line, n) => (n >= first && line.startsWith(indent) ? [n] : []))
  return items[place] ?? -1
}
