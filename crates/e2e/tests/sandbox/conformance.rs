//! What every provider must do, on `local` as root and as an ordinary user.

use omoi_protocol::{Place, SandboxStatus, live::LiveEvent};
use serde_json::json;

use crate::{
    git::{Mirror, Repository},
    omoi::{As, Omoi, data},
    traces::Traces,
};

/// Runs a case as root and as an ordinary user.
macro_rules! as_both {
    ($($(#[$doc:meta])* $name:ident $case:expr;)*) => {$(
        $(#[$doc])*
        mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn as_root() {
                Box::pin($case(crate::omoi::As::Root)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn as_an_ordinary_user() {
                Box::pin($case(crate::omoi::As::User)).await;
            }
        }
    )*};
}

as_both! {
    a_command_runs_in_a_checkout_on_its_branch super::runs_on_its_branch;
    a_further_command_runs_beside_the_first_and_its_output_streams super::exec_streams;
    what_ends_badly_says_how super::ends_badly;
    a_sandbox_that_is_killed_from_outside_has_crashed super::killed_from_outside;
    a_sandbox_that_disappears_is_lost super::disappears;
    a_restart_adopts_what_runs_and_starts_nothing_twice super::restart_adopts;
    nothing_is_left_of_a_sandbox_that_has_ended super::nothing_is_left;
    the_environment_and_the_files_hold_no_secret super::no_secret;
    limits_hold super::limits_hold;
}

async fn runs_on_its_branch(who: As) {
    let (omoi, repository) = (Omoi::start(who).await, Repository::small());
    let project = omoi.project(&repository).await;
    let script = "git rev-parse --abbrev-ref HEAD && git rev-parse HEAD && cat README.md && pwd && \
                  echo made > made.txt && git add made.txt && git commit -qm 'Make it' && git rev-parse HEAD";
    let ran = omoi.sh(&project, script).await;
    let lines: Vec<&str> = ran.ok().lines().collect();
    let sandbox = omoi.sandbox(&ran.id).await;
    let branch = sandbox.branch_name.clone().unwrap();
    let base = repository.git(&["rev-parse", "HEAD"]);
    assert_eq!(lines[..4], [branch.as_str(), base.as_str(), "# A project", "/workspace"]);
    assert_eq!(sandbox.status, SandboxStatus::Completed, "{sandbox:?}");
    assert_eq!(sandbox.base_commit.as_deref(), Some(base.as_str()));
    let mirror = Mirror::of(&omoi.data(), &project);
    assert_eq!(
        mirror.git(&["rev-parse", &format!("refs/heads/{branch}")]),
        lines[4],
        "the worker has pushed it"
    );
    assert_eq!(mirror.file(&branch, "made.txt"), "made");
}

async fn exec_streams(who: As) {
    let (omoi, repository) = (Omoi::start(who).await, Repository::small());
    let project = omoi.project(&repository).await;
    let id = omoi.order(&project, &["/bin/sh", "-c", "echo first > note; exec sleep 1000"]).await;
    omoi.until_event(&id, "command.started").await;
    let ran = omoi
        .exec(&id, &["/bin/sh", "-c", "while ! cat note 2>/dev/null; do :; done; echo to stderr >&2; exit 7"])
        .await;
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(7), "first\n", "to stderr\n"));
    let told = "echo $SANDBOX_ID $PROJECT_ID $WORKSPACE_PATH ${OMOI_TOKEN-no token}";
    let ran = omoi.exec(&id, &["/bin/sh", "-c", told]).await;
    assert_eq!(ran.stdout, format!("{id} {project} /workspace no token\n"));
    let ran = omoi.exec(&id, &["/no/such/program"]).await;
    assert_ne!(ran.code, Some(0), "{ran:?}");
    omoi.terminate(&id).await;
    omoi.gone(&id).await;
    let (status, refused) =
        omoi.post(&format!("/api/v1/sandboxes/{id}/commands"), &json!({ "argv": ["true"] })).await;
    assert_eq!((status, &refused["code"]), (409, &json!("sandbox_ended")), "{refused}");
}

async fn ends_badly(who: As) {
    let (omoi, repository) = (Omoi::start(who).await, Repository::small());
    let project = omoi.project(&repository).await;
    let ran = omoi.sh(&project, "exit 3").await;
    assert_eq!(ran.code, Some(3));
    assert_eq!(omoi.sandbox(&ran.id).await.status, SandboxStatus::Failed);
    let ran = omoi.sh(&project, "kill -9 $$").await;
    assert_eq!(ran.signal, Some(9), "{ran:?}");
    assert_eq!(omoi.sandbox(&ran.id).await.status, SandboxStatus::Failed);
}

async fn killed_from_outside(who: As) {
    let (omoi, repository) = (Omoi::start(who).await, Repository::small());
    let project = omoi.project(&repository).await;
    let id = omoi.order(&project, &["sleep", "1000"]).await;
    omoi.until_event(&id, "command.started").await;
    omoi.kill_init(&id);
    omoi.gone(&id).await;
    let sandbox = omoi.sandbox(&id).await;
    assert_eq!((sandbox.status, sandbox.end_reason.as_deref()), (SandboxStatus::Failed, Some("crashed")));
}

async fn disappears(who: As) {
    let (mut omoi, repository) = (Omoi::start(who).await, Repository::small());
    let project = omoi.project(&repository).await;
    let id = omoi.order(&project, &["sleep", "1000"]).await;
    omoi.until_event(&id, "command.started").await;
    omoi.kill().await;
    omoi.remove_place(&id);
    omoi.start_again().await;
    omoi.gone(&id).await;
    let sandbox = omoi.sandbox(&id).await;
    assert_eq!((sandbox.status, sandbox.end_reason.as_deref()), (SandboxStatus::Failed, Some("lost")));
}

async fn restart_adopts(who: As) {
    let (mut omoi, repository) = (Omoi::start(who).await, Repository::small());
    let project = omoi.project(&repository).await;
    let script = "echo $$ >> starts; while ! test -e go; do :; done; cat starts | wc -l";
    let id = omoi.order(&project, &["/bin/sh", "-c", script]).await;
    omoi.until_event(&id, "command.started").await;
    let (_, cut_off) =
        omoi.post(&format!("/api/v1/sandboxes/{id}/commands"), &json!({ "argv": ["sleep", "1000"] })).await;
    let is_it = |event: &LiveEvent| data(event)["command_id"] == cut_off["id"];
    omoi.until(&id, |event| event.event_type == "command.started" && is_it(event)).await;
    omoi.kill().await;
    omoi.start_again().await;
    let seen = omoi.until(&id, |event| event.event_type == "command.completed" && is_it(event)).await;
    assert_eq!(data(seen.last().unwrap())["error"], "the server ended while it ran");
    assert_eq!(omoi.exec(&id, &["touch", "/workspace/go"]).await.code, Some(0));
    let seen = omoi.gone(&id).await;
    let output: String = seen
        .iter()
        .filter(|event| event.event_type == "command.output")
        .map(|event| data(event)["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(output.trim(), "1");
    let starts = seen.iter().filter(|event| event.event_type == "SANDBOX_SPAWNED").count();
    assert_eq!(starts, 1);
    assert_eq!(omoi.sandbox(&id).await.status, SandboxStatus::Completed);
}

async fn nothing_is_left(who: As) {
    let (omoi, repository) = (Omoi::start(who).await, Repository::small());
    let project = omoi.project(&repository).await;
    let ran = omoi
        .sh(&project, "setsid sleep 1000 & mkdir -m 0 closed; touch .git/x; chmod 0 .git/x; exit 0")
        .await;
    assert_eq!(omoi.sandbox(&ran.id).await.place, Place::Gone);
    Traces::assert_none(&omoi.data(), &[ran.id.to_string()]);
}

async fn no_secret(who: As) {
    let omoi = Omoi::start_with(
        who,
        &[("ANTHROPIC_API_KEY", "sk-the-real-key-0123456789"), ("GITHUB_TOKEN", "ghp_the_forge_token_01234")],
    )
    .await;
    let project = omoi.small_project().await;
    let script = "(env; cat /proc/*/environ 2>/dev/null; grep -rsl 'the-real-key\\|the_forge_token' / \
                  --exclude-dir=sys --exclude-dir=proc 2>/dev/null; cat /run/omoi/* 2>&1) | tr '\\0' '\\n'";
    let ran = omoi.sh(&project, script).await;
    assert!(!ran.stdout.contains("real-key") && !ran.stdout.contains("forge_token"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("launch.json") || !ran.stdout.contains("\"sandbox_id\""), "{}", ran.stdout);
    assert!(ran.stdout.contains("ANTHROPIC_BASE_URL=http://127.0.0.1"), "{}", ran.stdout);
}

async fn limits_hold(who: As) {
    let (omoi, repository) = (Omoi::start(who).await, Repository::small());
    let project = omoi.project(&repository).await;
    let body = json!({ "command": ["/usr/bin/python3", "-c", "b = bytearray(3 << 30); print(len(b))"], "memory_gb": 1 });
    let id = omoi.order_with(&project, body).await;
    let seen = omoi.gone(&id).await;
    let ended = seen.iter().find(|event| event.event_type == "command.completed").unwrap();
    assert_ne!(data(ended)["exit_code"], 0, "three gigabytes do not fit into one");
    let (status, refused) = omoi
        .post(
            &format!("/api/v1/projects/{project}/sandboxes"),
            &json!({ "command": ["true"], "memory_gb": 0 }),
        )
        .await;
    assert_eq!(status, 422, "{refused}");
}
