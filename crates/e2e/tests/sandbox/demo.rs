//! The demo and `omoi run` from end to end: a scripted model, and everything else as it is for anybody.

use std::{path::Path, process::Stdio};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    git::Repository,
    omoi::{As, Omoi, bin},
};

/// The program with nothing of ours in its environment.
pub fn omoi(args: &[&str], dir: &Path) -> Command {
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    let mut command = Command::new(bin("omoi"));
    command
        .args(args)
        .env_clear()
        .env("HOME", dir)
        .env("TMPDIR", dir)
        .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
    command.current_dir(dir).stdin(Stdio::null()).kill_on_drop(true);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demo_proves_itself_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let said = omoi(&["demo", "--exit", "--json"], dir.path()).output().await.unwrap();
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    let proof: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert_eq!((said.status.code(), &proof["status"]), (Some(0), &json!("completed")), "{proof}\n{err}");
    assert_eq!(proof["result"], "126410606437752");
    let changes: Vec<_> =
        proof["files_changed"].as_array().unwrap().iter().map(|file| &file["change_type"]).collect();
    assert_eq!(changes, [&json!("created"), &json!("modified")]);
    assert!(!proof["commits"].as_array().unwrap().is_empty());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_way_of_a_task_is_verified_and_leaves_nothing() {
    verifies("verify-flow", 17).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn that_those_who_watch_see_and_are_heard_is_verified_and_leaves_nothing() {
    verifies("verify-monitoring", 15).await;
}

async fn verifies(command: &str, steps_min: usize) {
    let dir = tempfile::tempdir().unwrap();
    let said = omoi(&[command, "--exit", "--json"], dir.path()).output().await.unwrap();
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert_eq!((said.status.code(), &report["status"]), (Some(0), &json!("held")), "{report:#}\n{err}");
    let steps = report["steps"].as_array().unwrap();
    assert!(steps.len() >= steps_min && steps.iter().all(|step| step["held"] == true), "{report:#}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_that_have_ended_are_watched_compared_and_pruned() {
    let server = Omoi::start(As::Root).await;
    let ask = async |args: &[&str]| {
        let mut command = omoi(args, server.path());
        command.env("OMOI_URL", server.url()).env("OMOI_TOKEN", server.token());
        let said = command.env("OMOI_DATA_DIR", server.data()).output().await.unwrap();
        let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        assert_eq!(said.status.code(), Some(0), "{args:?}: {out}{err}");
        out.into_owned()
    };
    let told = ask(&["verify-flow"]).await;
    assert!(told.contains("✓ branch") && told.contains("All 17 steps held"), "{told}");
    let flow: Value = serde_json::from_str(&ask(&["verify-flow", "--json"]).await).unwrap();
    let repository = Repository::small();
    let path = repository.path().to_str().unwrap();
    let run = ask(&["run", "Compute", "--project", path, "--model", "scripted/binomial", "--json"]).await;
    let run: Value = serde_json::from_str(&run).unwrap();

    let [a, b] = [&flow, &run].map(|one| one["sandbox_id"].as_str().unwrap());
    let both: Value = serde_json::from_str(&ask(&["sandbox", "compare", a, b, "--json"]).await).unwrap();
    assert_eq!((&both[1]["turns"], &both[1]["files_changed"]), (&json!(5), &json!(1)), "{both:#}");
    assert_eq!(both[0]["files_changed"], 1);
    assert!(both[1]["outcome"].as_str().unwrap().starts_with("completed: C(50,25)"), "{both:#}");
    let table = ask(&["sandbox", "compare", a, b]).await;
    assert!(table.contains("outcome") && table.contains("files changed"), "{table}");

    let told = ask(&["task", "watch", run["task_id"].as_str().unwrap()]).await;
    assert!(told.contains("binomial.py") && told.contains("completed after 1 attempt(s)"), "{told}");
    let due = ask(&["sandbox", "prune", "--older-than", "0s", "--dry-run", "--json"]).await;
    let due: Value = serde_json::from_str(&due).unwrap();
    let due: Vec<_> = due["closed"].as_array().unwrap().iter().map(|sandbox| &sandbox["id"]).collect();
    assert!(due.contains(&&json!(a)) && due.contains(&&json!(b)), "{due:?}");
    let shown: Value = serde_json::from_str(&ask(&["sandbox", "show", b, "--json"]).await).unwrap();
    assert_eq!(shown["status"], "completed", "who only looks has ended nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_hands_back_a_branch_that_its_last_line_fetches() {
    let server = Omoi::start(As::Root).await;
    let repository = Repository::small();
    let path = repository.path().to_str().unwrap();
    let args = ["run", "Compute C(50,25)", "--project", path, "--model", "scripted/binomial", "--json"];
    let mut run = omoi(&args, server.path());
    run.env("OMOI_URL", server.url()).env("OMOI_TOKEN", server.token());
    let said = run.env("OMOI_DATA_DIR", server.data()).output().await.unwrap();
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    let summary: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert_eq!((said.status.code(), &summary["status"]), (Some(0), &json!("completed")), "{summary}\n{err}");

    // From the mirror where it can be read, and from the server where it cannot.
    let through_server = format!(
        "git -c http.extraHeader=\"Authorization: Bearer $OMOI_TOKEN\" fetch {}/git/{}.git {}",
        server.url(),
        summary["project_id"].as_str().unwrap(),
        summary["branch"].as_str().unwrap()
    );
    let from_mirror = summary["fetch"].as_str().unwrap();
    assert!(from_mirror.starts_with("git fetch /"), "{from_mirror}");
    for line in [from_mirror, &through_server] {
        let script = format!("{line} && git cat-file -e FETCH_HEAD:binomial.py && git rev-parse FETCH_HEAD");
        #[expect(clippy::disallowed_methods, reason = "a person's shell")]
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(&script).current_dir(repository.path()).env("OMOI_TOKEN", server.token());
        let fetched = shell.env("NO_PROXY", "127.0.0.1").output().await.unwrap();
        let tip = String::from_utf8_lossy(&fetched.stdout);
        assert_eq!(
            json!(tip.trim()),
            summary["commits"][0],
            "{script}\n{}",
            String::from_utf8_lossy(&fetched.stderr)
        );
    }
}
