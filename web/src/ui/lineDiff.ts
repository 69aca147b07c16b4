// What differs between two texts, line by line, as a unified diff that `DiffView` can show.

const CONTEXT = 3
/** Beyond so many differing lines the middle is told as replaced whole: comparing all with all takes too long. */
const LINES_MAX = 2_000

type Edit = { sign: ' ' | '-' | '+'; line: string }

const same = (line: string): Edit => ({ sign: ' ', line })
const removed = (line: string): Edit => ({ sign: '-', line })
const added = (line: string): Edit => ({ sign: '+', line })

/** Empty where nothing differs. */
export function lineDiff(before: string, after: string): string {
  const edits = editsOf(linesOf(before), linesOf(after))
  const hunks: string[] = []
  let [old, now, at] = [1, 1, 0]
  while (at < edits.length) {
    const first = edits.findIndex((edit, n) => n >= at && edit.sign !== ' ')
    if (first < 0) break
    const from = Math.max(at, first - CONTEXT)
    old += from - at
    now += from - at
    const to = endOf(edits, first)
    const hunk = edits.slice(from, to)
    const olds = hunk.filter(({ sign }) => sign !== '+').length
    const nows = hunk.filter(({ sign }) => sign !== '-').length
    hunks.push(`@@ -${start(old, olds)},${olds} +${start(now, nows)},${nows} @@`, ...hunk.map(({ sign, line }) => sign + line))
    old += olds
    now += nows
    at = to
  }
  return hunks.join('\n')
}

/** Git counts from the line before where a side is empty. */
function start(line: number, count: number): number {
  return count === 0 ? line - 1 : line
}

/** Where the hunk that begins with this change ends: behind its last change and some lines that are the same. */
function endOf(edits: readonly Edit[], first: number): number {
  let last = first
  for (let n = first; n < edits.length && n <= last + 2 * CONTEXT + 1; n += 1) {
    if (edits[n]?.sign !== ' ') last = n
  }
  return Math.min(edits.length, last + CONTEXT + 1)
}

function editsOf(a: readonly string[], b: readonly string[]): Edit[] {
  let head = 0
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1
  let tail = 0
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1
  return [
    ...a.slice(0, head).map(same),
    ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map(same),
  ]
}

/** The longest common run of lines, by dynamic programming. */
function middle(a: readonly string[], b: readonly string[]): Edit[] {
  if (a.length === 0 || b.length === 0 || a.length > LINES_MAX || b.length > LINES_MAX) {
    return [...a.map(removed), ...b.map(added)]
  }
  const wide = b.length + 1
  const common = new Uint16Array((a.length + 1) * wide)
  const get = (i: number, j: number) => common[i * wide + j] ?? 0
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      common[i * wide + j] = a[i] === b[j] ? get(i + 1, j + 1) + 1 : Math.max(get(i + 1, j), get(i, j + 1))
    }
  }
  const edits: Edit[] = []
  let [i, j] = [0, 0]
  while (i < a.length || j < b.length) {
    const [left, right] = [a[i], b[j]]
    if (left !== undefined && left === right) {
      edits.push(same(left))
      i += 1
      j += 1
    } else if (right === undefined || (left !== undefined && get(i + 1, j) >= get(i, j + 1))) {
      edits.push(removed(left ?? ''))
      i += 1
    } else {
      edits.push(added(right))
      j += 1
    }
  }
  return edits
}

function linesOf(text: string): string[] {
  return text === '' ? [] : text.replace(/\n$/, '').split('\n')
}
