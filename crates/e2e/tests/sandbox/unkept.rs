//! Work that cannot be kept: tries end, the task goes on, other sandboxes are made meanwhile, and a person decides.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use omoi_protocol::{Place, ProjectId, SandboxId};
use omoi_server::crash::Point;
use serde_json::json;
use tokio::time::timeout;

use crate::{
    git::{Mirror, Repository},
    omoi::{As, Omoi, PATIENCE, data},
    traces::Traces,
};

const FEW_TRIES: [(&str, &str); 2] =
    [("OMOI_SANDBOX_RESCUE_TRIES", "2"), ("OMOI_SANDBOX_RESCUE_WAIT_MAX", "20ms")];
const WHY: &str = "the rescue is broken";
const AWAY: &str = "the launcher is away";

/// Leaves a file that nobody has committed, and fails.
const FAILS: &str = r#"
about: a file, then a long command
steps:
  - name: write
    say: I begin.
    call: { tool: Write, input: { file_path: begun.txt, content: "begun\n" } }
  - name: wait
    say: This takes a while.
    call: { tool: Bash, input: { command: "touch waits; sleep 600" } }
    when:
      - { is_error: true, next: wait }
"#;

/// Leaves a file that no push can bring beside one that is kept.
const LARGE: &str = r#"
about: two files, then a long command
steps:
  - name: write
    say: I begin.
    call: { tool: Write, input: { file_path: begun.txt, content: "begun\n" } }
  - name: large
    say: This takes a while.
    call: { tool: Bash, input: { command: "head -c 3000000 /dev/urandom > large.bin; touch waits; sleep 600" } }
    when:
      - { is_error: true, next: large }
"#;
const SMALL_PUSHES: (&str, &str) = ("OMOI_GIT_PUSH_BYTES_MAX", "1MiB");

/// Stands before the launcher and makes sandboxes as ever. While the file `block` is there, no rescue begins; with `away` each
/// fails to begin, and with `broken` each begins and fails.
struct Gate {
    dir: PathBuf,
}

impl Gate {
    fn before(omoi: &Omoi) -> Self {
        let (dir, program) = (omoi.path().to_owned(), omoi.path().join("bin/omoi-launcher"));
        let real = omoi.path().join("bin/real-launcher");
        std::fs::rename(&program, &real).unwrap();
        let (real, at) = (real.display(), dir.display());
        let script = format!(
            r#"#!/bin/sh
if [ "$1" != run ]; then exec {real} "$@"; fi
plan=$(/bin/cat)
case "$plan" in
*'"/omoi/worker","rescue"'*)
    : > {at}/begun.$$
    while [ -e {at}/block ]; do /bin/sleep 0.05; done
    if [ -e {at}/away ]; then echo '{AWAY}' >&2; exit 1; fi
    if [ -e {at}/broken ]; then
        fails='"/bin/sh","-c","echo {WHY}; exit 70","rescue"'
        plan=$(printf '%s' "$plan" | /bin/sed "s|\"/omoi/worker\",\"rescue\"|$fails|")
    fi ;;
esac
printf '%s' "$plan" | {real} run
"#
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        Self { dir }
    }

    fn shut(&self, name: &str) {
        std::fs::write(self.dir.join(name), "").unwrap();
    }

    fn open(&self, name: &str) {
        std::fs::remove_file(self.dir.join(name)).unwrap();
    }

    /// Waits until so many rescues stand before it.
    async fn begun(&self, count: usize) {
        let begun = |dir: &Path| {
            let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.to_string_lossy().starts_with("begun.")).count()
        };
        let waited = timeout(PATIENCE, async {
            while begun(&self.dir) < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        assert!(waited.await.is_ok(), "{} of {count} rescues have begun", begun(&self.dir));
    }
}

impl Omoi {
    /// A sandbox with a file that nobody has committed.
    async fn with_work(&self, project: &ProjectId, text: &str) -> SandboxId {
        let script = format!("echo {text} > work; echo ready; exec sleep 1000");
        let command = json!({ "command": ["/bin/sh", "-c", script], "memory_gb": 1, "disk_gb": 1 });
        let id = self.order_with(project, command).await;
        self.until_event(&id, "command.output").await;
        id
    }

    async fn decide(&self, id: &SandboxId, what: &str) -> (u16, serde_json::Value) {
        self.post(&format!("/api/v1/sandboxes/{id}/{what}"), &json!({})).await
    }

    async fn kept_file(&self, project: &ProjectId, id: &SandboxId) -> String {
        self.gone(id).await;
        let kept = self.sandbox(id).await.kept.expect("its work is kept");
        Mirror::of(&self.data(), project).file(kept.reference.as_deref().unwrap(), "work")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rescue_that_never_succeeds_ends_frees_its_task_and_waits_for_a_person() {
    let omoi = Omoi::with_scenarios_and(&[("fails", FAILS)], &FEW_TRIES).await;
    let gate = Gate::before(&omoi);
    gate.shut("broken");
    let repository = Repository::small();
    let project = omoi.autonomous(&repository, "fails").await;
    let task = omoi.new_task(json!({ "project_id": project, "title": "Begin", "max_retries": 1 })).await;
    let first = omoi.attempt(&task, 1).await;
    omoi.until_event(&first, "agent.started").await;
    omoi.until_file(&first, "waits").await;
    omoi.kill_init(&first);

    // The retry does not wait for what is not kept.
    let second = omoi.attempt(&task, 2).await;
    omoi.until_event(&second, "agent.started").await;
    let left = omoi.sandbox(&first).await;
    assert_eq!(left.place, Place::Unkept);
    let rescue = left.rescue.unwrap();
    assert_eq!((rescue.tries, rescue.next_at), (2, None));
    assert!(rescue.error.contains(WHY), "{}", rescue.error);
    assert!(omoi.data().join("sandboxes").join(first.as_str()).is_dir(), "nothing is deleted");
    let (status, _) = omoi.post(&format!("/api/v1/tasks/{task}/cancel"), &json!({})).await;
    assert_eq!(status, 200);
    omoi.until_event(&second, "SANDBOX_UNKEPT").await;

    for id in [&first, &second] {
        let (status, answer) = omoi.decide(id, "discard").await;
        assert_eq!(status, 200, "{answer}");
        let seen = omoi.gone(id).await;
        let lost =
            seen.iter().find(|event| event.event_type == "sandbox.discarded").expect("the loss is named");
        let lost = data(lost);
        assert!(lost["error"].as_str().unwrap().contains(WHY), "{lost}");
        for named in ["branch_name", "base_commit", "disk_bytes"] {
            assert!(!lost[named].is_null(), "{named}: {lost}");
        }
        assert_eq!(omoi.decide(id, "discard").await.0, 409);
    }
    Traces::assert_none(&omoi.data(), &[first.to_string(), second.to_string()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_while_rescues_fail_gives_up_once_and_keeps_the_work_when_asked_again() {
    let mut omoi = Omoi::start_with(As::Root, &FEW_TRIES).await;
    let gate = Gate::before(&omoi);
    let project = omoi.small_project().await;
    for point in Point::OF_FAILED_RESCUES {
        gate.shut("broken");
        let id = omoi.with_work(&project, point.as_str()).await;
        omoi.kill().await;
        omoi.start_again_until(point, 1).await;
        let terminate = format!("{}/api/v1/sandboxes/{id}/terminate", omoi.url());
        let _ = omoi.http.post(terminate).bearer_auth(omoi.token()).json(&json!({})).send().await;
        omoi.died().await;
        omoi.start_again().await;
        let seen = omoi.until(&id, |event| event.event_type == "SANDBOX_UNKEPT").await;
        let told = seen.iter().filter(|event| event.event_type == "SANDBOX_UNKEPT").count();
        assert_eq!((told, omoi.sandbox(&id).await.place), (1, Place::Unkept), "{}", point.as_str());

        gate.open("broken");
        assert_eq!(omoi.decide(&id, "rescue").await.0, 200);
        assert_eq!(omoi.kept_file(&project, &id).await, point.as_str());
        Traces::assert_none(&omoi.data(), &[id.to_string()]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rescue_that_cannot_begin_is_no_try_and_is_begun_again_until_it_can() {
    let omoi = Omoi::start_with(As::Root, &FEW_TRIES).await;
    let gate = Gate::before(&omoi);
    let project = omoi.small_project().await;
    let id = omoi.with_work(&project, "work").await;
    gate.shut("away");
    omoi.terminate(&id).await;
    // One more than the tries that a rescue has.
    gate.begun(3).await;
    gate.open("away");
    assert_eq!(omoi.kept_file(&project, &id).await, "work");
}

/// Eight is as many as there are rescues at once, and steps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rescues_that_do_not_end_keep_no_sandbox_from_being_made_or_stopped() {
    let omoi = Omoi::start(As::Root).await;
    let gate = Gate::before(&omoi);
    let projects = [omoi.small_project().await, omoi.small_project().await];
    let mut all = Vec::new();
    for n in 0..8 {
        let project = &projects[n % 2];
        all.push((project, omoi.with_work(project, &format!("work {n}")).await));
    }
    gate.shut("block");
    for (_, id) in &all {
        omoi.terminate(id).await;
    }
    gate.begun(all.len()).await;

    let made = omoi.with_work(&projects[0], "made meanwhile").await;
    omoi.terminate(&made).await;
    for (_, id) in &all {
        assert_eq!(omoi.sandbox(id).await.place, Place::Up, "its rescue has not ended");
    }
    gate.open("block");
    all.push((&projects[0], made));
    for (n, (project, id)) in all.iter().enumerate() {
        let expected = if n < 8 { format!("work {n}") } else { "made meanwhile".to_owned() };
        assert_eq!(omoi.kept_file(project, id).await, expected);
    }
}

/// The first try tells all there is to tell, so there is no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_push_can_bring_is_named_and_waits_for_a_person_while_the_rest_goes_on() {
    let omoi = Omoi::with_scenarios_and(&[("large", LARGE)], &[SMALL_PUSHES]).await;
    let repository = Repository::small();
    let project = omoi.autonomous(&repository, "large").await;
    let task = omoi.new_task(json!({ "project_id": project, "title": "Begin", "max_retries": 1 })).await;
    let first = omoi.attempt(&task, 1).await;
    omoi.until_event(&first, "agent.started").await;
    omoi.until_file(&first, "waits").await;
    let grow = "truncate -s 2T sparse; head -c 3000000 /dev/urandom > ignored; echo ignored > .gitignore";
    assert_eq!(omoi.exec(&first, &["/bin/sh", "-c", grow]).await.code, Some(0));
    omoi.kill_init(&first);

    let second = omoi.attempt(&task, 2).await;
    omoi.until_event(&second, "agent.started").await;
    let read = omoi.exec(&second, &["/bin/cat", "begun.txt"]).await;
    assert_eq!((read.code, read.stdout.trim()), (Some(0), "begun"), "the retry goes on from what was kept");

    let left = omoi.sandbox(&first).await;
    assert_eq!((left.place, left.rescue.as_ref().map(|rescue| rescue.tries)), (Place::Unkept, Some(1)));
    let kept = left.kept.unwrap();
    let mut named: Vec<&str> = kept.left_out.iter().map(|left| left.path.as_str()).collect();
    named.sort_unstable();
    assert_eq!(named, ["large.bin", "sparse"], "{kept:?}");
    assert_eq!(kept.left_out_bytes, 3_000_000 + (2 << 40));
    assert!(kept.left_out.iter().all(|left| left.reason.contains("git.push_bytes_max")), "{kept:?}");
    let mirror = Mirror::of(&omoi.data(), &project);
    assert_eq!(mirror.file(kept.reference.as_deref().unwrap(), "begun.txt"), "begun");
    assert!(left.rescue.unwrap().error.contains("large.bin (3000000 bytes)"));

    let (status, answer) = omoi.decide(&first, "discard").await;
    assert_eq!(status, 200, "{answer}");
    let seen = omoi.gone(&first).await;
    for event_type in ["sandbox.preserved", "sandbox.unkept", "sandbox.discarded"] {
        let told: Vec<_> = seen.iter().filter(|event| event.event_type == event_type).collect();
        let [told] = told[..] else { panic!("{event_type} is told {} times", told.len()) };
        assert_eq!(data(told)["left_out_files"], 2, "{event_type}");
    }
}

/// What only needs another name, or to be made readable, needs no person.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_git_refuses_and_files_that_cannot_be_read_are_kept_without_a_person() {
    let omoi = Omoi::start_with(As::Root, &[SMALL_PUSHES]).await;
    let project = omoi.small_project().await;
    let script = r#"
import os
def put(path, text):
    if os.path.dirname(path): os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, 'w').write(text)
put('plain', 'plain')
for name in ['.git ', '.git.', '.git\u200c', 'git~1', 'dir/.GIT']: put(name, 'refused ' + name)
put('.gitmodules', '[submodule "x"]\n\tpath = x\n\turl = -x\n')
put('closed', 'closed'); put('shut/below/file', 'shut')
os.chmod('closed', 0); os.chmod('shut/below', 0); os.chmod('shut', 0)
for n in range(6): open(f'much{n}', 'wb').write(os.urandom(400_000))
os.mkfifo('pipe')
for _ in range(30): os.mkdir('d' * 200); os.chdir('d' * 200)
put('far', 'far below')
print('ready', flush=True)
import time; time.sleep(1000)
"#;
    let id = omoi.order(&project, &["/usr/bin/python3", "-c", script]).await;
    omoi.until_event(&id, "command.output").await;
    omoi.terminate(&id).await;
    omoi.gone(&id).await;
    let kept = omoi.sandbox(&id).await.kept.unwrap();
    assert_eq!((kept.left_out_files, kept.left_out.len()), (0, 0), "{kept:?}");
    let (mirror, reference) = (Mirror::of(&omoi.data(), &project), kept.reference.unwrap());
    for (path, text) in [("plain", "plain"), ("closed", "closed"), ("shut/below/file", "shut")] {
        assert_eq!(mirror.file(&reference, path), text);
    }
    for n in 0..6 {
        let size = mirror.git(&["cat-file", "-s", &format!("{reference}:much{n}")]);
        assert_eq!(size, "400000", "more than one push may bring comes in several");
    }
    let aside = kept.set_aside.expect("what has no name is set aside");
    assert_eq!((aside.files, &aside.reference), (7, &format!("refs/set-aside/{id}")));
    let index = mirror.file(&aside.reference, "INDEX");
    for (line, expected) in
        index.lines().zip(["refused .git ", "refused .git.", "[submodule", "refused .git\u{200c}"])
    {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = mirror.file(&aside.reference, line["file"].as_str().unwrap());
        assert!(text.starts_with(expected.trim_end()), "{line}: {text}");
    }
    assert!(index.contains("hasDotgit") && index.contains("gitmodulesUrl"), "{index}");
}
