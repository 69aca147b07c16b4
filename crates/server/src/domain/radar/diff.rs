//! Reads which lines a unified diff of one file changes. Context is not a change.

use super::touched::Hunk;

/// A worker that cuts a diff says so in a line that begins like this.
const CUT: &str = "[the diff goes on";

/// What a diff changes, in its order. A file that is no text is changed as a whole.
pub fn hunks(diff: &str) -> Vec<Hunk> {
    let mut found = Vec::new();
    let mut at = Place::default();
    for line in diff.lines() {
        if line.starts_with(CUT) {
            // What is missing may change anything behind the last line that is known.
            at.end(&mut found);
            found.push(Hunk { start: at.old, ..Hunk::WHOLE });
            break;
        } else if at.is_inside() {
            at.take(line, &mut found);
        } else if let Some(head) = Place::begin(line) {
            at = head;
        } else if line.starts_with("Binary files ") || line.starts_with("GIT binary patch") {
            return vec![Hunk::WHOLE];
        }
    }
    at.end(&mut found);
    found
}

/// Where the reading stands: lines are counted from zero in the file as it was.
#[derive(Debug, Default)]
struct Place {
    old: u32,
    old_left: u32,
    new_left: u32,
    run: Option<Hunk>,
}

impl Place {
    /// `@@ -3,2 +3,4 @@`: a length of one is left out, and a place of no lines is behind the named one.
    fn begin(line: &str) -> Option<Self> {
        let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
        let (new, _) = rest.split_once(" @@")?;
        let (start, old_left) = range(old)?;
        let (_, new_left) = range(new)?;
        let old = if old_left == 0 { start } else { start.saturating_sub(1) };
        Some(Self { old, old_left, new_left, run: None })
    }

    fn is_inside(&self) -> bool {
        self.old_left > 0 || self.new_left > 0
    }

    fn take(&mut self, line: &str, found: &mut Vec<Hunk>) {
        let start = self.old;
        match line.as_bytes().first() {
            Some(b'-') => {
                self.run.get_or_insert(Hunk { start, old: 0, new: 0 }).old += 1;
                (self.old, self.old_left) = (start.saturating_add(1), self.old_left.saturating_sub(1));
            }
            Some(b'+') => {
                self.run.get_or_insert(Hunk { start, old: 0, new: 0 }).new += 1;
                self.new_left = self.new_left.saturating_sub(1);
            }
            Some(b'\\') => {}
            // An empty line of context may have lost its space on the way.
            _ => {
                self.end(found);
                self.old = start.saturating_add(1);
                self.old_left = self.old_left.saturating_sub(1);
                self.new_left = self.new_left.saturating_sub(1);
            }
        }
        if !self.is_inside() {
            self.end(found);
        }
    }

    fn end(&mut self, found: &mut Vec<Hunk>) {
        found.extend(self.run.take());
    }
}

fn range(text: &str) -> Option<(u32, u32)> {
    match text.split_once(',') {
        Some((start, len)) => Some((start.parse().ok()?, len.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Places = [(u32, u32, u32)];

    fn read(diff: &str) -> Vec<(u32, u32, u32)> {
        hunks(diff).into_iter().map(|hunk| (hunk.start, hunk.old, hunk.new)).collect()
    }

    #[test]
    fn a_diff_changes_its_lines_and_not_their_context() {
        let head = "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n";
        let table: &[(&str, &Places)] = &[
            ("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", &[(1, 1, 1)]),
            ("@@ -1,5 +1,5 @@ fn x() {\n-a\n+A\n b\n c\n d\n-e\n+E\n", &[(0, 1, 1), (4, 1, 1)]),
            ("@@ -2,0 +3,2 @@\n+x\n+y\n", &[(2, 0, 2)]),
            ("@@ -4 +3,0 @@\n-gone\n", &[(3, 1, 0)]),
            ("@@ -0,0 +1,2 @@\n+new\n+file\n", &[(0, 0, 2)]),
            ("@@ -1,2 +0,0 @@\n-all\n-gone\n", &[(0, 2, 0)]),
            ("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n", &[(0, 1, 1)]),
            // A line that looks like a heading is one only outside.
            ("@@ -1,2 +1,2 @@\n--- a/f\n+++ b/f\n x\n", &[(0, 1, 1)]),
            ("@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@\n-c\n+d\n", &[(0, 1, 1), (8, 1, 1)]),
        ];
        for (body, expected) in table {
            assert_eq!(read(&format!("{head}{body}")), *expected, "{body}");
        }
    }

    #[test]
    fn what_shows_no_lines_is_nothing_or_everything() {
        assert_eq!(read("diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"), []);
        assert_eq!(read(""), []);
        assert_eq!(hunks("Binary files a/data and b/data differ\n"), [Hunk::WHOLE]);
        let cut = hunks(
            "@@ -1,9 +1,9 @@\n-a\n+b\n[the diff goes on for 70 characters; it is too long to be kept]\n",
        );
        assert_eq!(cut[0], Hunk { start: 0, old: 1, new: 1 });
        assert_eq!(cut[1].start, 1, "{cut:?}");
    }
}
