//! How commands end, with everything that they have started.

use std::time::Instant;

use super::*;

/// Starts processes in many ways that do not want to end, each in a file of its own.
const FAMILY: &str = r#"
trap '' TERM INT HUP
sh -c 'trap "" TERM INT HUP; echo $$ > child; while :; do sleep 1; done' &
setsid sh -c 'trap "" TERM INT HUP; echo $$ > session; while :; do sleep 1; done' &
setsid sh -c 'sh -c "echo \$\$ > daemon; exec sleep 1000" >/dev/null 2>&1 </dev/null & exit 0' &
env -i /bin/sh -c 'echo $$ > bare; exec /bin/sleep 1000' &
(setsid env -i /bin/sh -c 'echo $$ > lost; exec /bin/sleep 1000' & wait) &
until [ -s child ] && [ -s session ] && [ -s daemon ] && [ -s bare ] && [ -s lost ]; do sleep 0.02; done
"#;
const MEMBERS: [&str; 5] = ["child", "session", "daemon", "bare", "lost"];

#[tokio::test]
async fn a_stop_ends_the_whole_tree_within_two_seconds() {
    let desk = Desk::new();
    let stopped = Mutex::new(None);
    let command = format!("{FAMILY} echo ready; wait; sleep 1000");
    let listen = when("ready", || {
        stopped.lock().unwrap().get_or_insert_with(Instant::now);
        desk.stop.send_replace(true);
    });
    let done = desk.hear("Bash", json!({ "command": command }), &listen).await;
    let took = stopped.lock().unwrap().unwrap().elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(
        done.interrupted && done.is_error && done.content.contains("ready\n[the command was interrupted")
    );
    let pids = desk.pids(&MEMBERS);
    assert!(!pids.iter().any(|pid| runs(*pid)), "{pids:?}");
    let again = desk.bash("touch never").await;
    assert!(again.interrupted && !desk.at("work/never").exists());
}

#[tokio::test]
async fn a_time_limit_ends_the_whole_tree() {
    let desk = Desk::new();
    let command = format!("{FAMILY} wait; sleep 1000");
    let done = desk.run("Bash", json!({ "command": command, "timeout": 5000 })).await;
    refused(done, "run_in_background");
    let pids = desk.pids(&MEMBERS);
    assert!(!pids.iter().any(|pid| runs(*pid)), "{pids:?}");
}

#[tokio::test]
async fn what_a_shell_leaves_behind_is_ended_and_told() {
    let desk = Desk::new();
    let begun = Instant::now();
    let command = "sleep 1000 & echo $! > one; setsid sleep 1000 >/dev/null 2>&1 & echo $! > two; echo done";
    let done = desk.bash(command).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(!done.is_error && done.content.starts_with("done\n[the command left "), "{done:?}");
    assert!(done.content.contains("sleep") && done.content.contains("run_in_background"));
    assert_eq!(done.response["left_running"], 2);
    assert!(!desk.pids(&["one", "two"]).into_iter().any(runs));
}

#[tokio::test]
async fn a_daemon_that_hides_is_known_once_it_was_seen() {
    let desk = Desk::new();
    // No mark, no parent, no group and no stream of the command's; but a while in its sight.
    let daemon =
        "setsid env -i /bin/sh -c 'echo $$ > one; exec /bin/sleep 1000' </dev/null >/dev/null 2>&1 &";
    let done = desk.bash(&format!("sh -c \"{}\nsleep 2\"; echo done", daemon.replace('$', "\\$"))).await;
    assert_eq!(done.response["left_running"], 1, "{done:?}");
    assert!(!runs(desk.pids(&["one"])[0]));
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_any_more_is_ended() {
    let desk = Desk::new();
    let ready = watch::Sender::new(false);
    let mut is_ready = ready.subscribe();
    let command = "setsid sleep 1000 & echo $! > one; echo $$ > two; echo ready; sleep 1000";
    let listen = when("ready", || {
        ready.send_replace(true);
    });
    tokio::select! {
        done = desk.hear("Bash", json!({ "command": command }), &listen) => panic!("{done:?}"),
        _ = is_ready.wait_for(|ready| *ready) => {}
    }
    assert!(desk.group.borrow().is_none());
    let pids = desk.pids(&["one", "two"]);
    eventually(|| !pids.iter().any(|pid| runs(*pid))).await;
}

#[tokio::test]
async fn a_command_in_the_background_runs_until_the_session_ends() {
    let desk = Desk::new();
    let begun = Instant::now();
    let command = format!("{FAMILY} echo ready; sleep 1000");
    let done = desk.run("Bash", json!({ "command": command, "run_in_background": true })).await;
    assert!(begun.elapsed() < Duration::from_secs(2));
    let pid = done.response["background_pid"].as_i64().unwrap() as i32;
    let file = desk.at("outputs/call_1.txt");
    assert!(good(done).contains(&format!("process {pid}; what it writes goes to {}", file.display())));
    eventually(|| fs::read_to_string(&file).is_ok_and(|text| text == "ready\n")).await;
    // Another call leaves it alone, and so does the end of somebody who did not start it.
    good(desk.bash("true").await);
    let other = desk.tools.only(&["Bash"]);
    let theirs = json!({ "command": "exec sleep 1000", "run_in_background": true });
    let theirs =
        desk.call(&other, "Bash", theirs, &|_| {}).await.response["background_pid"].as_i64().unwrap() as i32;
    other.end_background().await;
    assert!(runs(pid) && !runs(theirs));
    let pids = desk.pids(&MEMBERS);
    assert!(pids.iter().all(|pid| runs(*pid)), "{pids:?}");
    desk.tools.end_background().await;
    assert!(!runs(pid) && !pids.iter().any(|pid| runs(*pid)), "{pids:?}");
}

#[tokio::test]
async fn a_command_in_the_background_can_be_killed_and_says_how_it_ended() {
    let desk = Desk::new();
    let start = async |command: &str| {
        let done = desk.run("Bash", json!({ "command": command, "run_in_background": true })).await;
        let file = PathBuf::from(done.response["output_file"].as_str().unwrap());
        (done.response["background_pid"].as_i64().unwrap(), file)
    };
    let (pid, file) = start("sleep 1000; echo never").await;
    good(desk.bash(&format!("kill -- -{pid}")).await);
    eventually(|| fs::read_to_string(&file).is_ok_and(|text| text.contains("[ended: signal: 15"))).await;
    let (_, file) = start("echo out; echo err >&2; exit 4").await;
    eventually(|| fs::read_to_string(&file).is_ok_and(|text| text.ends_with("[ended with exit code 4]\n")))
        .await;
    desk.tools.end_background().await;
}

/// For what only the kernel knows, which tells nobody.
async fn eventually(holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "it never came to be");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
