import { describe, expect, test } from 'vitest'
import { changesIn, LINES_MAX, parseDiff, sideBySide } from './diff'

const HEAD = 'diff --git a/a.txt b/a.txt\nindex 1..2 100644\n--- a/a.txt\n+++ b/a.txt\n'

describe('a diff', () => {
  test('numbers its lines on both sides', () => {
    const diff = parseDiff(`${HEAD}@@ -2,3 +2,3 @@ fn main() {\n same\n-old\n+new\n \n\\ No newline at end of file\n`)
    expect(diff).toEqual({
      lines: [
        { kind: 'hunk', text: '@@ -2,3 +2,3 @@ fn main() {' },
        { kind: 'same', old: 2, now: 2, text: 'same' },
        { kind: 'removed', old: 3, text: 'old' },
        { kind: 'added', now: 3, text: 'new' },
        { kind: 'same', old: 4, now: 4, text: '' },
      ],
      notes: [],
      isCut: false,
    })
  })

  test('takes a removed line that looks like a heading for a line', () => {
    const { lines, notes } = parseDiff(`${HEAD}@@ -1,2 +1 @@\n--- a/other\n-Binary files differ\n+++ b/other\n`)
    expect(lines.map((line) => line.kind)).toEqual(['hunk', 'removed', 'removed', 'added'])
    expect(notes).toEqual([])
  })

  test.each([
    ['new file mode 100644\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x', ['created']],
    ['new file mode 120000', ['created as a symbolic link']],
    ['deleted file mode 100644', ['deleted']],
    ['similarity index 90%\nrename from a\nrename to b', ['renamed from a to b']],
    ['old mode 100644\nnew mode 100755', ['mode 100644 → 100755']],
    ['Binary files a/x.png and b/x.png differ', ['binary, so there are no lines to show']],
  ])('names what is not in its lines: %j', (text, notes) => {
    expect(parseDiff(`diff --git a/a b/b\n${text}\n`).notes).toEqual(notes)
  })

  test('that was cut in the middle shows what there is', () => {
    expect(parseDiff(`${HEAD}@@ -1,9 +1,9 @@\n a\n+b`).lines).toHaveLength(3)
  })

  test('of any size has a limit and says so', () => {
    const count = LINES_MAX + 10
    const diff = parseDiff(`${HEAD}@@ -0,0 +1,${count} @@\n${'+x\n'.repeat(count)}`)
    expect([diff.lines.length, diff.isCut]).toEqual([LINES_MAX, true])
  })

  test('takes what is no diff for nothing', () => {
    expect(parseDiff('hello\nworld').lines).toEqual([])
  })
})

const shown = (text: string) =>
  sideBySide(parseDiff(text).lines).map((row) => (row.kind === 'hunk' ? '@@' : `${row.left?.text ?? ''}|${row.right?.text ?? ''}`))

describe('side by side', () => {
  test('what was replaced stands beside what replaces it', () => {
    expect(shown(`${HEAD}@@ -1,4 +1,4 @@\n a\n-b\n-c\n+B\n d\n+e\n`)).toEqual(['@@', 'a|a', 'b|B', 'c|', 'd|d', '|e'])
  })

  test('what is removed after something was added is another change', () => {
    expect(shown(`${HEAD}@@ -1,1 +1,1 @@\n+x\n-y\n`)).toEqual(['@@', '|x', 'y|'])
  })

  test('knows where each change begins', () => {
    const { lines } = parseDiff(`${HEAD}@@ -1,5 +1,5 @@\n a\n-b\n+B\n c\n+d\n-e\n`)
    expect(changesIn(lines, (line) => line.kind === 'added' || line.kind === 'removed')).toEqual([2, 5])
  })
})
