//! Nothing is deleted before it is kept: whatever the way a sandbox ends, its uncommitted work is in the mirror.

use omoi_protocol::sandbox::Kept;
use serde_json::json;

use crate::{
    git::Mirror,
    omoi::{As, Omoi},
};

/// Work that no commit has: a changed file, a new one, a deleted one, one in a new directory.
const WORK: &str = "echo changed >> README.md; rm src/lib.rs; mkdir -p new/dir; echo new > new/dir/file; \
                    printf '\\001\\002' > binary; ln -s /etc/passwd link;";

async fn work_is_kept(
    omoi: &Omoi,
    project: &omoi_protocol::ProjectId,
    id: &omoi_protocol::SandboxId,
) -> Kept {
    omoi.gone(id).await;
    let sandbox = omoi.sandbox(id).await;
    let kept = sandbox.kept.clone().expect("what was kept is said");
    assert!(kept.kept, "{sandbox:?}");
    let mirror = Mirror::of(&omoi.data(), project);
    let reference = kept.reference.clone().unwrap();
    assert_eq!(mirror.git(&["rev-parse", &reference]), kept.commit.clone().unwrap());
    assert_eq!(mirror.file(&reference, "README.md"), "# A project\nchanged");
    assert_eq!(mirror.file(&reference, "new/dir/file"), "new");
    assert_eq!(mirror.git(&["ls-tree", "--name-only", &reference, "src/"]), "");
    assert!(mirror.git(&["ls-tree", &reference, "link"]).starts_with("120000"), "a link stays a link");
    kept
}

macro_rules! kept_when {
    ($($name:ident $how:expr;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let mut omoi = Omoi::start(As::Root).await;
            let project = omoi.small_project().await;
            let how: How = $how;
            let id = how.begin(&omoi, &project).await;
            how.end(&mut omoi, &id).await;
            work_is_kept(&omoi, &project, &id).await;
        }
    )*};
}

enum How {
    /// The command does its work and then this.
    Command(&'static str),
    /// The command waits, and this happens from outside.
    Terminate,
    KillInit,
    KillServer,
    KillServerThenTerminate,
    KillServerAndInit,
    /// The directory of all checkouts, which its files come from, is removed.
    RemoveCheckouts,
}

kept_when! {
    work_is_kept_when_the_command_succeeds How::Command("true");
    work_is_kept_when_the_command_fails How::Command("exit 1");
    work_is_kept_when_the_command_is_killed How::Command("kill -9 $$");
    work_is_kept_when_memory_runs_out How::Command("exec python3 -c 'x = bytearray(3 << 30)'");
    work_is_kept_when_the_worker_is_killed How::Command("sleep 1; kill -9 $PPID; exec sleep 1000");
    work_is_kept_when_the_disk_is_full How::Command("mkdir target; dd if=/dev/zero of=target/all bs=1M status=none");
    work_is_kept_when_somebody_terminates_it How::Terminate;
    work_is_kept_when_the_sandbox_is_killed_from_outside How::KillInit;
    work_is_kept_when_the_server_is_killed How::KillServer;
    work_is_kept_when_the_server_is_killed_while_it_ends_the_sandbox How::KillServerThenTerminate;
    work_is_kept_when_server_and_sandbox_are_killed How::KillServerAndInit;
    work_is_kept_when_the_checkouts_are_removed How::RemoveCheckouts;
}

impl How {
    async fn begin(&self, omoi: &Omoi, project: &omoi_protocol::ProjectId) -> omoi_protocol::SandboxId {
        let rest = match self {
            Self::Command(rest) => rest,
            _ => "exec sleep 1000",
        };
        let script = format!("{WORK} echo ready; {rest}");
        let body = json!({ "command": ["/bin/sh", "-c", script], "memory_gb": 1, "disk_gb": 1 });
        let id = omoi.order_with(project, body).await;
        omoi.until_event(&id, "command.output").await;
        id
    }

    async fn end(&self, omoi: &mut Omoi, id: &omoi_protocol::SandboxId) {
        match self {
            Self::Command(_) => {}
            Self::Terminate => omoi.terminate(id).await,
            Self::KillInit => omoi.kill_init(id),
            Self::RemoveCheckouts => {
                std::fs::remove_dir_all(omoi.data().join("checkouts")).unwrap();
                omoi.kill_init(id);
            }
            Self::KillServer => {
                omoi.kill().await;
                omoi.start_again().await;
                omoi.terminate(id).await;
            }
            Self::KillServerThenTerminate => {
                omoi.terminate(id).await;
                omoi.kill().await;
                omoi.start_again().await;
            }
            Self::KillServerAndInit => {
                omoi.kill().await;
                omoi.kill_init(id);
                omoi.start_again().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_work_tree_leaves_no_ref() {
    let omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let ran = omoi.sh(&project, "echo a > a && git add a && git commit -qm a").await;
    ran.ok();
    let sandbox = omoi.sandbox(&ran.id).await;
    let branch = format!("refs/heads/{}", sandbox.branch_name.unwrap());
    assert_eq!(sandbox.kept.unwrap().reference, Some(branch), "its branch has it all");
    assert_eq!(Mirror::of(&omoi.data(), &project).refs("refs/preserved"), Vec::<String>::new());
}

/// Commits that were never pushed are work as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_were_not_pushed_are_kept() {
    let omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let script = "echo a > a && git add a && git commit -qm unpushed && echo ready && exec sleep 1000";
    let id = omoi.order(&project, &["/bin/sh", "-c", script]).await;
    omoi.until_event(&id, "command.output").await;
    omoi.kill_init(&id);
    omoi.gone(&id).await;
    let kept = omoi.sandbox(&id).await.kept.unwrap();
    let mirror = Mirror::of(&omoi.data(), &project);
    assert_eq!(mirror.file(kept.reference.as_deref().unwrap(), "a"), "a");
}

/// Whatever a repository says about filters, hooks or attributes, what is kept are the bytes that were there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_repository_is_kept_byte_by_byte() {
    let omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let script = r#"
        git config filter.evil.clean 'echo filtered'; git config filter.evil.smudge 'echo filtered'
        git config filter.evil.required true; echo '* filter=evil text eol=crlf ident' > .gitattributes
        git config core.fsmonitor 'touch /tmp/ran'; git config core.hooksPath /workspace/hooks
        git config core.worktree /etc; git config core.bare true
        mkdir hooks; printf '#!/bin/sh\ntouch /tmp/ran\nexit 1\n' > hooks/pre-commit; chmod +x hooks/pre-commit
        cp hooks/pre-commit hooks/pre-push; printf 'a\nb $Id$\n' > bytes
        git init -q nested 2>/dev/null; echo inner > nested/file
        rm -rf .git/objects/info; ln -s /etc .git/objects/info
        echo ready; exec sleep 1000"#;
    let id = omoi.order(&project, &["/bin/sh", "-c", script]).await;
    omoi.until_event(&id, "command.output").await;
    omoi.terminate(&id).await;
    omoi.gone(&id).await;
    let kept = omoi.sandbox(&id).await.kept.unwrap();
    let mirror = Mirror::of(&omoi.data(), &project);
    let reference = kept.reference.unwrap();
    assert_eq!(mirror.file(&reference, "bytes"), "a\nb $Id$");
    assert_eq!(mirror.file(&reference, "nested/file"), "inner");
}
