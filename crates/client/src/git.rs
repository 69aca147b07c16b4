//! What a project's mirror holds, asked over the same door that `git fetch` uses.

use omoi_protocol::ProjectId;

use crate::{Client, Error};

/// The digits that say how long a line is, themselves included.
const LENGTH: usize = 4;

impl Client {
    /// The commit that a branch is at; None where there is no such branch.
    pub async fn branch_tip(&self, of: &ProjectId, branch: &str) -> Result<Option<String>, Error> {
        let path = format!("/git/{of}.git/info/refs");
        let listed = self.get(&path).query(&[("service", "git-upload-pack")]).text().await?;
        Ok(tip(&listed, &format!("refs/heads/{branch}")))
    }
}

/// Lines of Git's protocol: four digits of length, a commit, a space and a name; behind the first name are capabilities.
fn tip(listed: &str, name: &str) -> Option<String> {
    let mut rest = listed;
    while let Some(digits) = rest.get(..LENGTH) {
        let length = usize::from_str_radix(digits, 16).ok()?.max(LENGTH);
        let line = rest.get(LENGTH..length)?.trim_end();
        let line = line.split('\0').next().unwrap_or_default();
        match line.split_once(' ') {
            Some((commit, found)) if found == name => return Some(commit.to_owned()),
            _ => rest = rest.get(length..)?,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_found_among_the_refs_that_are_listed() {
        let line = |text: &str| format!("{:04x}{text}", text.len() + LENGTH);
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let listed = [
            line("# service=git-upload-pack\n"),
            "0000".to_owned(),
            line(&format!("{a} HEAD\0multi_ack symref=HEAD:refs/heads/main\n")),
            line(&format!("{a} refs/heads/main\n")),
            line(&format!("{b} refs/heads/fix/1-parser\n")),
            "0000".to_owned(),
        ]
        .concat();
        assert_eq!(tip(&listed, "refs/heads/fix/1-parser"), Some(b));
        assert_eq!(tip(&listed, "refs/heads/main"), Some(a));
        assert_eq!(tip(&listed, "refs/heads/fix"), None);
        for broken in ["", "00", "zzzz", "ffff", "0009ab"] {
            assert_eq!(tip(broken, "refs/heads/main"), None, "{broken}");
        }
    }
}
