//! Which refs a sandbox may push to. A live one may move its own branch and what is kept of it; one that has ended, only
//! the latter, for as long as its token is good.

use omoi_protocol::SandboxId;

use super::commit::CommitId;

/// Who pushes.
#[derive(Debug, Clone, Copy)]
pub enum Pusher<'a> {
    Live { sandbox: &'a SandboxId, branch: Option<&'a str>, default_branch: &'a str },
    Ended { sandbox: &'a SandboxId },
}

/// One line of a push: where the ref was, as far as the pusher knows, and where it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefUpdate {
    pub name: String,
    pub old: Option<CommitId>,
    pub new: Option<CommitId>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("nothing is deleted from a sandbox")]
    Deletion,
    #[error("a sandbox pushes no tags")]
    Tag,
    #[error("{0} is the default branch, which no sandbox may push to")]
    DefaultBranch(String),
    #[error("this sandbox may push to {0} only")]
    OtherBranch(String),
    #[error("this sandbox has no branch; it may push to refs/preserved/{0} only")]
    NoBranch(SandboxId),
    #[error("this sandbox has ended; it may push to refs/preserved/{0} only")]
    Ended(SandboxId),
    #[error("what is kept of another sandbox is not changed")]
    OtherPreserved,
    #[error("no sandbox may push to this ref")]
    OtherRef,
}

pub fn judge(pusher: Pusher<'_>, update: &RefUpdate) -> Result<(), Refusal> {
    if update.new.is_none() {
        return Err(Refusal::Deletion);
    }
    let (Pusher::Live { sandbox, .. } | Pusher::Ended { sandbox }) = pusher;
    match update.name.strip_prefix("refs/").and_then(|name| name.split_once('/')) {
        Some(("preserved" | "set-aside", of)) if of == sandbox.as_str() => Ok(()),
        Some(("preserved" | "set-aside", _)) => Err(Refusal::OtherPreserved),
        Some(("heads", branch)) => judge_branch(pusher, branch),
        Some(("tags", _)) => Err(Refusal::Tag),
        _ => Err(Refusal::OtherRef),
    }
}

fn judge_branch(pusher: Pusher<'_>, pushed: &str) -> Result<(), Refusal> {
    match pusher {
        Pusher::Ended { sandbox } => Err(Refusal::Ended(sandbox.clone())),
        Pusher::Live { default_branch, .. } if pushed == default_branch => {
            Err(Refusal::DefaultBranch(pushed.to_owned()))
        }
        Pusher::Live { sandbox, branch: None, .. } => Err(Refusal::NoBranch(sandbox.clone())),
        Pusher::Live { branch: Some(own), .. } if own == pushed => Ok(()),
        Pusher::Live { branch: Some(own), .. } => Err(Refusal::OtherBranch(own.to_owned())),
    }
}

/// What a branch must still hold after a push. What the sandbox itself has pushed it may take back; what was there when
/// it started is others' work. Without knowing that, nothing may go.
pub fn must_hold<'a>(base: Option<&'a CommitId>, old: Option<&'a CommitId>) -> Option<&'a CommitId> {
    base.or(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(digit: char) -> Option<CommitId> {
        Some(digit.to_string().repeat(40).parse().unwrap())
    }

    #[test]
    fn a_sandbox_may_push_to_its_branch_while_it_lives_and_to_what_is_kept_of_it() {
        let own: SandboxId = "sbx-1".parse().unwrap();
        let live = |branch| Pusher::Live { sandbox: &own, branch, default_branch: "main" };
        let (with, without, on_main) = (live(Some("fix/1")), live(None), live(Some("main")));
        let ended = Pusher::Ended { sandbox: &own };
        let fine = || Ok(());
        let other_branch = || Err(Refusal::OtherBranch("fix/1".to_owned()));
        let default = || Err(Refusal::DefaultBranch("main".to_owned()));
        let (over, none) = (|| Err(Refusal::Ended(own.clone())), || Err(Refusal::NoBranch(own.clone())));
        let (kept, other, tag) =
            (|| Err(Refusal::OtherPreserved), || Err(Refusal::OtherRef), || Err(Refusal::Tag));
        // The ref, then what one with a branch, one without, one on main by mistake, and one that has ended may do.
        for (name, verdicts) in [
            ("refs/heads/fix/1", [fine(), none(), Err(Refusal::OtherBranch("main".to_owned())), over()]),
            ("refs/preserved/sbx-1", [fine(), fine(), fine(), fine()]),
            ("refs/heads/main", [default(), default(), default(), over()]),
            (
                "refs/heads/fix/2",
                [other_branch(), none(), Err(Refusal::OtherBranch("main".to_owned())), over()],
            ),
            (
                "refs/heads/fix/1/x",
                [other_branch(), none(), Err(Refusal::OtherBranch("main".to_owned())), over()],
            ),
            ("refs/heads/", [other_branch(), none(), Err(Refusal::OtherBranch("main".to_owned())), over()]),
            ("refs/set-aside/sbx-1", [fine(), fine(), fine(), fine()]),
            ("refs/set-aside/sbx-2", [kept(), kept(), kept(), kept()]),
            ("refs/set-aside/sbx-1/x", [kept(), kept(), kept(), kept()]),
            ("refs/preserved/sbx-2", [kept(), kept(), kept(), kept()]),
            ("refs/preserved/sbx-1/x", [kept(), kept(), kept(), kept()]),
            ("refs/tags/v1", [tag(), tag(), tag(), tag()]),
            ("refs/omoi/base/sbx-1", [other(), other(), other(), other()]),
            ("refs/remotes/origin/main", [other(), other(), other(), other()]),
            ("HEAD", [other(), other(), other(), other()]),
            ("fix/1", [other(), other(), other(), other()]),
            ("", [other(), other(), other(), other()]),
        ] {
            let update = |new| RefUpdate { name: name.to_owned(), old: commit('a'), new };
            for (pusher, verdict) in [with, without, on_main, ended].into_iter().zip(verdicts) {
                assert_eq!(judge(pusher, &update(commit('b'))), verdict, "{name} {pusher:?}");
                assert_eq!(judge(pusher, &update(None)), Err(Refusal::Deletion), "{name} {pusher:?}");
            }
        }
    }

    #[test]
    fn a_branch_keeps_what_was_there_before_the_sandbox() {
        let (base, old) = (commit('a'), commit('b'));
        for (base, old, kept) in
            [(&base, &old, &base), (&base, &None, &base), (&None, &old, &old), (&None, &None, &None)]
        {
            assert_eq!(must_hold(base.as_ref(), old.as_ref()), kept.as_ref());
        }
    }
}
