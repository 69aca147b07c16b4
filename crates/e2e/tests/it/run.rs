//! A command from its start to the task's end.

use omoi_protocol::{
    TaskStatus,
    event::{OUTPUT_BYTES_MAX, OUTPUT_TEXT_BYTES_MAX, Payload},
};
use rustix::process::Signal;

use crate::{
    house::{House, assert_dense, types, written},
    repo::Mirror,
    worker::{Worker, launch},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_description_that_no_environment_holds_is_left_out_and_named_and_the_command_starts() {
    let house = House::open().await;
    let told = "echo \"${TASK_DESCRIPTION-none}\"; echo \"$OMOI_ENV_LEFT_OUT\"";
    for (description, left_out) in
        [("Mend it.".to_owned(), vec![]), ("ä".repeat(100_000), vec!["TASK_DATA_BASE64", "TASK_DESCRIPTION"])]
    {
        let task = house.task_described(&description).await;
        let worker = Worker::attach(&house, &["--task", task.as_str()], &["sh", "-c", told]);
        assert_eq!(worker.code().await, 0);
        let sandbox = house.client.task_get(&task).await.unwrap().sandbox_id.unwrap();
        let events = house.events(&sandbox).await;
        let shown = if left_out.is_empty() { description.as_str() } else { "none" };
        assert_eq!(written(&events, "stdout"), format!("{shown}\n{}\n", left_out.join(",")));
        let Payload::SandboxBooting(booting) = events[0].payload() else { panic!("{:?}", events[0]) };
        assert_eq!(booting.env_left_out.unwrap_or_default(), left_out);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attached_command_is_told_from_its_first_event_to_the_completed_task() {
    let house = House::open().await;
    let task = house.task().await;
    let script = "echo out; echo err >&2; pwd; echo $SANDBOX_ID";
    let worker = Worker::attach(&house, &["--task", task.as_str()], &["sh", "-c", script]);
    assert_eq!(worker.code().await, 0);

    let sandbox = house.client.task_get(&task).await.unwrap().sandbox_id.unwrap();
    let events = house.events(&sandbox).await;
    let told: Vec<_> = types(&events).into_iter().filter(|one| *one != "command.output").collect();
    assert_eq!(
        told,
        [
            "sandbox.booting",
            "agent.started",
            "command.started",
            "command.completed",
            "agent.completed",
            "agent.shutdown",
        ]
    );
    assert_dense(&events);
    let here = house.dir.path().canonicalize().unwrap();
    assert_eq!(written(&events, "stdout"), format!("out\n{}\n{sandbox}\n", here.display()));
    assert_eq!(written(&events, "stderr"), "err\n");
    assert_eq!(house.task_status(&task).await, TaskStatus::Completed);
    assert!(!house.dir.path().join(".omoi/spool").join(sandbox.as_str()).exists(), "nothing is left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_project_s_pending_task_is_found_and_taken() {
    let house = House::open().await;
    let task = house.task().await;
    let project = house.client.task_get(&task).await.unwrap().project_id;
    let args = ["--project", project.as_str()];
    assert_eq!(Worker::attach(&house, &args, &["true"]).code().await, 0);
    assert_eq!(house.task_status(&task).await, TaskStatus::Completed);
    let output = Worker::attach(&house, &args, &["true"]).end().await;
    assert_eq!(output.status.code(), Some(70));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no task that could be taken"), "{output:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_fails_fails_its_task_and_lends_the_worker_its_code() {
    for (script, code, exit_code, signal, error) in [
        ("echo broken >&2; exit 3", 3, Some(3), None, "exit code 3"),
        ("kill -9 $$", 137, None, Some(9), "killed by signal 9"),
    ] {
        let house = House::open().await;
        let task = house.task().await;
        let worker = Worker::attach(&house, &["--task", task.as_str()], &["sh", "-c", script]);
        assert_eq!(worker.code().await, code);
        let sandbox = house.client.task_get(&task).await.unwrap().sandbox_id.unwrap();
        let Payload::AgentFailed(failed) = house.told(&sandbox, "agent.failed").await.payload() else {
            panic!()
        };
        assert_eq!((failed.exit_code, failed.signal), (exit_code, signal));
        assert!(failed.error.as_ref().unwrap().contains(error), "{failed:?}");
        assert_eq!(house.task_status(&task).await, TaskStatus::Failed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_not_there_is_named() {
    let house = House::open().await;
    let attached = house.attach(Some(&house.task().await)).await;
    let launch = launch(&house, &attached, &["no-such-program"]);
    assert_eq!(Worker::run(house.dir.path(), &launch).code().await, 1);
    let Payload::AgentFailed(failed) = house.told(&attached.sandbox.id, "agent.failed").await.payload()
    else {
        panic!()
    };
    assert_eq!(failed.failure_kind.as_deref(), Some("invalid"));
    assert!(failed.error.unwrap().contains("no-such-program"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_and_heartbeats_arrive_while_the_command_runs() {
    let house = House::open().await;
    let attached = house.attach(None).await;
    let id = &attached.sandbox.id;
    let script = "echo first; while [ ! -e go ]; do sleep 0.02; done; echo second";
    let mut launch = launch(&house, &attached, &["sh", "-c", script]);
    launch.limits.heartbeat_seconds = 1;
    let worker = Worker::run(house.dir.path(), &launch);
    house.told(id, "command.output").await;
    assert_eq!(written(&house.events(id).await, "stdout"), "first\n");
    let Payload::AgentHeartbeat(beat) = house.told(id, "agent.heartbeat").await.payload() else { panic!() };
    assert_eq!(beat.status.as_deref(), Some("running"));
    assert!(beat.processes.unwrap() >= 2 && beat.memory_bytes.unwrap() > 0, "{beat:?}");
    std::fs::write(house.dir.path().join("workspace/go"), "").unwrap();
    assert_eq!(worker.code().await, 0);
    assert_eq!(written(&house.events(id).await, "stdout"), "first\nsecond\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_output_is_cut_into_pieces_and_ends_with_how_much_is_missing() {
    let house = House::open().await;
    let attached = house.attach(None).await;
    let launch = launch(&house, &attached, &["sh", "-c", "head -c 6000000 /dev/zero | tr '\\0' x"]);
    assert_eq!(Worker::run(house.dir.path(), &launch).code().await, 0);
    let events = house.events(&attached.sandbox.id).await;
    let pieces: Vec<_> = events
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::CommandOutput(output) => Some(output),
            _ => None,
        })
        .collect();
    assert!(pieces.iter().all(|piece| piece.text.as_ref().unwrap().len() <= OUTPUT_TEXT_BYTES_MAX));
    assert_eq!(written(&events, "stdout").len(), OUTPUT_BYTES_MAX);
    let missing = 6_000_000 - OUTPUT_BYTES_MAX as u64;
    assert_eq!(pieces.last().unwrap().dropped_bytes, Some(missing));
    let Payload::CommandCompleted(end) =
        house.told(&attached.sandbox.id, "command.completed").await.payload()
    else {
        panic!()
    };
    assert_eq!((end.output_bytes, end.dropped_bytes), (Some(6_000_000), Some(missing)));
    assert_dense(&events);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_that_is_no_text_is_marked() {
    let house = House::open().await;
    let attached = house.attach(None).await;
    let launch = launch(&house, &attached, &["printf", "a\\377b ü"]);
    assert_eq!(Worker::run(house.dir.path(), &launch).code().await, 0);
    let Payload::CommandOutput(output) = house.told(&attached.sandbox.id, "command.output").await.payload()
    else {
        panic!()
    };
    assert_eq!((output.text.as_deref(), output.lossy), (Some("a\u{fffd}b ü"), Some(true)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_leaves_behind_does_not_hold_its_end() {
    let house = House::open().await;
    let attached = house.attach(None).await;
    // One in the command's group, one that has got away from it; both hold its output open.
    let launch = launch(&house, &attached, &["sh", "-c", "sleep 1000 & setsid sleep 5 & echo done"]);
    assert_eq!(Worker::run(house.dir.path(), &launch).code().await, 0);
    assert_eq!(written(&house.events(&attached.sandbox.id).await, "stdout"), "done\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_takes_too_long_is_stopped() {
    let house = House::open().await;
    let task = house.task().await;
    let attached = house.attach(Some(&task)).await;
    let mut launch = launch(&house, &attached, &["sleep", "1000"]);
    launch.limits.wall_clock_seconds = 1;
    assert_eq!(Worker::run(house.dir.path(), &launch).code().await, 124);
    let Payload::AgentFailed(failed) = house.told(&attached.sandbox.id, "agent.failed").await.payload()
    else {
        panic!()
    };
    assert_eq!(failed.failure_kind.as_deref(), Some("timed_out"));
    assert_eq!(house.task_status(&task).await, TaskStatus::Failed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_launch_is_deleted_and_a_second_worker_keeps_off_the_spool() {
    let house = House::open().await;
    let attached = house.attach(None).await;
    let launch = launch(&house, &attached, &["sleep", "1000"]);
    let worker = Worker::run(house.dir.path(), &launch);
    house.told(&attached.sandbox.id, "command.started").await;
    assert!(!house.dir.path().join("launch.json").exists());
    let output = Worker::run(house.dir.path(), &launch).end().await;
    assert_eq!(output.status.code(), Some(70));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another worker"), "{output:?}");
    worker.signal(Signal::TERM);
    assert_eq!(worker.code().await, 143);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_reaches_the_mirror_on_its_branch() {
    let house = House::open().await;
    let mirror = Mirror::make(house.dir.path());
    let task = house.task().await;
    let attached = house.attach(Some(&task)).await;
    let script = "test -f README && git checkout -q nowhere 2>/dev/null; echo new > new && git add new && git commit -qm new";
    let mut launch = launch(&house, &attached, &["sh", "-c", script]);
    launch.repository = Some(mirror.repository("feature/new"));
    assert_eq!(Worker::run(house.dir.path(), &launch).code().await, 0);

    let events = house.events(&attached.sandbox.id).await;
    let told = types(&events);
    assert_eq!(
        told[..2],
        ["sandbox.booting", "workspace.progress"],
        "the first word comes before any slow step"
    );
    assert!(told.contains(&"workspace.ready") && told.contains(&"workspace.pushed"), "{told:?}");
    let tip = mirror.git(&["rev-parse", "refs/heads/feature/new"]);
    let Payload::AgentCompleted(done) = house.told(&attached.sandbox.id, "agent.completed").await.payload()
    else {
        panic!()
    };
    assert_eq!((done.commit.as_deref(), done.code_pushed), (Some(tip.as_str()), Some(true)));
    assert_eq!(mirror.git(&["show", &format!("{tip}:new")]), "new");
    assert_eq!(mirror.git(&["log", "-1", "--format=%an <%ae>", &tip]), "Omoi <sandbox@omoi.invalid>");
    assert_eq!(house.task_status(&task).await, TaskStatus::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_that_cannot_be_pushed_is_no_success() {
    let house = House::open().await;
    let mirror = Mirror::make(house.dir.path());
    let task = house.task().await;
    let attached = house.attach(Some(&task)).await;
    let moved = format!(
        "mv {0} {0}.away; echo new > new && git add new && git commit -qm new",
        mirror.path.display()
    );
    let mut launch = launch(&house, &attached, &["sh", "-c", &moved]);
    launch.repository = Some(mirror.repository("feature/new"));
    assert_eq!(Worker::run(house.dir.path(), &launch).code().await, 1);
    let Payload::AgentFailed(failed) = house.told(&attached.sandbox.id, "agent.failed").await.payload()
    else {
        panic!()
    };
    assert_eq!(failed.failure_kind.as_deref(), Some("unavailable"));
    assert_eq!(house.task_status(&task).await, TaskStatus::Failed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_s_command_finds_its_own_environment_and_nothing_of_the_host_s() {
    let house = House::open().await;
    let attached = house.attach(None).await;
    let launch = launch(&house, &attached, &["env"]);
    assert_eq!(Worker::run(house.dir.path(), &launch).code().await, 0);
    let text = written(&house.events(&attached.sandbox.id).await, "stdout");
    let mut names: Vec<_> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    let mut expected: Vec<_> =
        launch.environment().into_keys().chain(["PATH".to_owned(), "HOME".to_owned()]).collect();
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_s_memory_is_closed_to_what_it_runs() {
    let house = House::open().await;
    let attached = house.attach(None).await;
    // To a process of the same user that may not look, it seems to be root's; its own child does not.
    let script =
        "stat -c %u /proc/$PPID/mem /proc/$$/mem; cat /proc/$PPID/environ >/dev/null && echo readable";
    let launch = launch(&house, &attached, &["sh", "-c", script]);
    let worker = Worker::run_as_nobody(house.dir.path(), &launch);
    worker.end().await;
    assert_eq!(written(&house.events(&attached.sandbox.id).await, "stdout"), "0\n65534\n");
}
