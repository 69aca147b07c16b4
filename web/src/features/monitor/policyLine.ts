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
  let [from, to] = [0, lines.length]
  let at = -1
  for (const [, name, place] of key.matchAll(/([A-Za-z_]+)|\[(\d+)\]/g)) {
    const next = name === undefined ? itemWithin(lines, from, to, Number(place)) : keyWithin(lines, from, to, name)
    if (next === undefined) break
    at = next
    // What belongs to it: the line itself, as in `same_error: { times: 0 }`, and all that stands further in.
    from = next
    to = endOf(lines, next, to)
  }
  return at < 0 ? undefined : at + 1
}

function keyWithin(lines: readonly string[], from: number, to: number, name: string): number | undefined {
  const pattern = new RegExp(`(^|[\\s{,-])${name}\\s*:`)
  const found = lines.slice(from, to).findIndex((line) => pattern.test(line))
  return found < 0 ? undefined : from + found
}

/** Items that stand as far in as the first one. */
function itemWithin(lines: readonly string[], from: number, to: number, place: number): number | undefined {
  const items = lines.map((line, n) => (n >= from && n < to && /^\s*-\s/.test(line) ? n : -1)).filter((n) => n >= 0)
  const indent = indentOf(lines[items[0] ?? -1])
  return items.filter((n) => indentOf(lines[n]) === indent)[place]
}

function endOf(lines: readonly string[], at: number, to: number): number {
  const indent = indentOf(lines[at])
  const next = lines.findIndex((line, n) => n > at && line.trim() !== '' && indentOf(line) <= indent)
  return next < 0 ? to : Math.min(next, to)
}

function indentOf(line: string | undefined): number {
  return /^\s*/.exec(line ?? '')?.[0].length ?? 0
}
