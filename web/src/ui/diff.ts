// Reads a unified diff of one file, as Git writes it, into lines that can be shown.

export type DiffLine =
  | { kind: 'hunk'; text: string }
  | { kind: 'added'; now: number; text: string }
  | { kind: 'removed'; old: number; text: string }
  | { kind: 'same'; old: number; now: number; text: string }

export type Diff = {
  lines: DiffLine[]
  /** What is different beside the lines: created, deleted, renamed, mode, binary. */
  notes: string[]
  /** Whether there was more than is shown. */
  isCut: boolean
}

export const LINES_MAX = 50_000

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/

export function parseDiff(text: string): Diff {
  const diff: Diff = { lines: [], notes: [], isCut: false }
  const head: Head = {}
  let [old, now, oldLeft, nowLeft] = [0, 0, 0, 0]
  for (const line of linesOf(text)) {
    if (diff.lines.length >= LINES_MAX) {
      diff.isCut = true
      break
    }
    // The counts tell where a hunk ends: a removed line may look like a heading.
    if (oldLeft > 0 || nowLeft > 0) {
      const [sign, rest] = [line[0], line.slice(1)]
      if (sign === '+') {
        diff.lines.push({ kind: 'added', now: now++, text: rest })
        nowLeft -= 1
      } else if (sign === '-') {
        diff.lines.push({ kind: 'removed', old: old++, text: rest })
        oldLeft -= 1
      } else if (sign !== '\\') {
        diff.lines.push({ kind: 'same', old: old++, now: now++, text: rest })
        oldLeft -= 1
        nowLeft -= 1
      }
      continue
    }
    const hunk = HUNK.exec(line)
    if (hunk) {
      old = Number(hunk[1])
      now = Number(hunk[3])
      oldLeft = Number(hunk[2] ?? 1)
      nowLeft = Number(hunk[4] ?? 1)
      diff.lines.push({ kind: 'hunk', text: line })
    } else {
      readHead(head, line)
    }
  }
  diff.notes = notesOf(head)
  return diff
}

/** One row of the two sides; a side without a line of its own is empty there. */
export type SideRow =
  | { kind: 'hunk'; text: string }
  | { kind: 'pair'; left: DiffLine | undefined; right: DiffLine | undefined }

/** Old on the left, new on the right; lines that were replaced stand beside those that replace them. */
export function sideBySide(lines: readonly DiffLine[]): SideRow[] {
  const rows: SideRow[] = []
  let removed: DiffLine[] = []
  let added: DiffLine[] = []
  const settle = () => {
    const count = Math.max(removed.length, added.length)
    for (let i = 0; i < count; i++) rows.push({ kind: 'pair', left: removed[i], right: added[i] })
    removed = []
    added = []
  }
  for (const line of lines) {
    if (line.kind === 'removed') {
      // What was added before belongs to another change.
      if (added.length > 0) settle()
      removed.push(line)
    } else if (line.kind === 'added') added.push(line)
    else {
      settle()
      rows.push(line.kind === 'hunk' ? line : { kind: 'pair', left: line, right: line })
    }
  }
  settle()
  return rows
}

/** Where each change begins, as an index into rows of which `isChange` says whether something is different there. */
export function changesIn<T>(rows: readonly T[], isChange: (row: T) => boolean): number[] {
  return rows.flatMap((row, index) => {
    const before = rows[index - 1]
    return isChange(row) && !(before !== undefined && isChange(before)) ? [index] : []
  })
}

type Head = {
  created?: string
  deleted?: string
  oldMode?: string
  newMode?: string
  from?: string
  to?: string
  copied?: string
  isBinary?: boolean
}

function readHead(head: Head, line: string) {
  const after = (words: string) => (line.startsWith(words) ? line.slice(words.length) : undefined)
  head.created ??= after('new file mode ')
  head.deleted ??= after('deleted file mode ')
  head.oldMode ??= after('old mode ')
  head.newMode ??= after('new mode ')
  head.from ??= after('rename from ')
  head.to ??= after('rename to ')
  head.copied ??= after('copy from ')
  head.isBinary ||= line.startsWith('Binary files ') || line === 'GIT binary patch'
}

function notesOf(head: Head): string[] {
  const kinds: Record<string, string> = { '120000': ' as a symbolic link', '100755': ' as an executable', '160000': ' as a submodule' }
  const notes = [
    head.created !== undefined && `created${kinds[head.created] ?? ''}`,
    head.deleted !== undefined && 'deleted',
    head.from !== undefined && head.to !== undefined && `renamed from ${head.from} to ${head.to}`,
    head.copied !== undefined && `copied from ${head.copied}`,
    head.oldMode !== undefined && head.newMode !== undefined && `mode ${head.oldMode} → ${head.newMode}`,
    head.isBinary === true && 'binary, so there are no lines to show',
  ]
  return notes.filter((note) => note !== false)
}

function* linesOf(text: string): Generator<string> {
  for (let from = 0; from < text.length; ) {
    const end = text.indexOf('\n', from)
    yield text.slice(from, end < 0 ? text.length : end)
    from = end < 0 ? text.length : end + 1
  }
}
