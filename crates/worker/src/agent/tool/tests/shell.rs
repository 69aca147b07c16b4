//! Bash: what a command finds, what it says and how that is cut.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use omoi_protocol::event::CommandStream;

use super::*;

#[tokio::test]
async fn a_command_runs_in_the_workspace_with_its_own_environment_and_no_input() {
    let desk = Desk::new();
    let done = desk.bash("pwd; cat; echo err >&2; exit 3").await;
    let work = fs::canonicalize(desk.at("work")).unwrap();
    assert_eq!(done.content, format!("{}\nerr\n[exit code 3]", work.display()));
    assert_eq!((done.exit_code, done.is_error, done.interrupted), (Some(3), true, false));
    assert_eq!(done.response["stderr"], "err\n");
    assert_eq!(done.response["exit_code"], 3);
    assert_eq!(good(desk.bash("true").await), "(no output)");
    good(desk.bash("cd /tmp").await);
    assert_eq!(good(desk.bash("pwd").await), work.display().to_string());

    let env = good(desk.bash("env").await);
    let mut names: Vec<_> = env.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.retain(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["GIT_TERMINAL_PROMPT", "OMOI_TOOL_CALL", "PATH", "TMPDIR"]);
    assert!(desk.group.borrow().is_none());
}

#[tokio::test]
async fn both_streams_come_in_order_and_live() {
    let desk = Desk::new();
    let told = Mutex::new(Vec::new());
    let listen = |piece: Piece<'_>| match piece {
        Piece::Started { argv, .. } => told.lock().unwrap().push(format!("started {}", argv[2])),
        Piece::Output { stream, text, .. } => {
            told.lock().unwrap().push(format!("{} {text}", stream.as_str()));
            fs::write(desk.at(&format!("work/{}", text.trim())), "").unwrap();
        }
        Piece::Ended { exit_code, .. } => told.lock().unwrap().push(format!("ended {exit_code:?}")),
    };
    // Each waits until what came before was heard.
    let heard = |word: &str| format!("until [ -e {word} ]; do sleep 0.01; done;");
    let command = format!("echo one; {} echo two >&2; {} echo three", heard("one"), heard("two"));
    let done = desk.hear("Bash", json!({ "command": command }), &listen).await;
    assert_eq!(good(done), "one\ntwo\nthree");
    let told = told.into_inner().unwrap();
    assert_eq!(told[1..], ["stdout one\n", "stderr two\n", "stdout three\n", "ended Some(0)"]);
    assert!(told[0].starts_with("started echo one"));
}

#[tokio::test]
async fn a_model_gets_text_whatever_a_command_writes() {
    let desk = Desk::new();
    let command = r"printf '\033[31mred\033[0m\0 a\tb\n10%%\r100%%\n\xff\xfe end'";
    assert_eq!(good(desk.bash(command).await), "red a\tb\n100%\n\u{fffd}\u{fffd} end");
}

#[tokio::test]
async fn long_output_is_cut_in_the_middle_and_kept_whole_in_a_file() {
    let desk = Desk::new();
    let live = AtomicUsize::new(0);
    let dropped = Mutex::new(None);
    let listen = |piece: Piece<'_>| {
        if let Piece::Output { stream, text, dropped_bytes, .. } = piece {
            assert_eq!(stream, CommandStream::Stdout);
            live.fetch_add(text.len(), Ordering::Relaxed);
            *dropped.lock().unwrap() = dropped_bytes;
        }
    };
    let done = desk.hear("Bash", json!({ "command": "seq 1 200000" }), &listen).await;
    assert!(!done.is_error && done.content.chars().count() < 30_300, "{}", done.content.len());
    assert!(done.content.starts_with("1\n2\n3\n") && done.content.ends_with("\n199999\n200000"));
    let file = desk.at("outputs/call_1.txt");
    assert!(done.content.contains(&format!("the whole is in {}", file.display())));
    let whole: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
    assert_eq!(live.into_inner(), 256 * 1024);
    assert_eq!(dropped.into_inner().unwrap(), Some((whole.len() - 256 * 1024) as u64));
    assert!(done.response.to_string().len() < 16 * 1024);
    // The file can be read by the tool, in parts or by search, though it is outside of the workspace.
    let path = file.display().to_string();
    let part = json!({ "file_path": path, "offset": 100_000, "limit": 1 });
    assert!(good(desk.run("Read", part).await).starts_with("100000\t100000\n"));
    refused(desk.write(&path, "x").await, "outside");
    // Another call of the same name has a file of its own.
    let again = desk.bash("seq 1 50000").await;
    assert!(again.content.contains("call_1-2.txt"));
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
    // What only looked long leaves none.
    good(desk.bash(r"for i in $(seq 5000); do printf '\033[31m\033[0m'; done").await);
    assert!(!desk.at("outputs/call_1-3.txt").exists());
}

#[tokio::test]
async fn a_flood_is_bounded_and_ends_in_time() {
    let desk = Desk::new();
    let begun = Instant::now();
    let done = desk.run("Bash", json!({ "command": "yes", "timeout": 2000 })).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(done.content.contains("2000 ms, its time limit") && done.content.len() < 31_000);
    assert_eq!((done.response["timed_out"].as_bool(), done.interrupted), (Some(true), false));
    let kept = fs::metadata(desk.at("outputs/call_1.txt")).unwrap().len();
    assert!((30_000..=64 * 1024 * 1024).contains(&kept), "{kept}");
}

#[test]
fn a_call_may_run_on_any_thread() {
    fn sends(_: &impl Send) {}
    let desk = Desk::new();
    let around = Around { stop: desk.stop.subscribe(), group: &desk.group, listen: &|_| {} };
    let call = Call { id: "1", name: "Bash", input: &Value::Null };
    sends(&desk.tools.run(&call, &around));
    sends(&desk.tools.end_background());
}

#[tokio::test]
async fn a_signal_is_told() {
    let desk = Desk::new();
    let done = desk.bash("kill -9 $$").await;
    assert!(done.is_error && done.content.contains("killed by signal 9"), "{done:?}");
    assert_eq!((done.exit_code, done.response["signal"].as_i64()), (None, Some(9)));
    let inner = desk.bash("bash -c 'kill -9 $$'; exit $?").await;
    assert!(
        inner.content.contains("exit code 137: something in the command was killed by signal 9"),
        "{inner:?}"
    );
}

#[tokio::test(flavor = "current_thread")]
async fn a_tool_leaves_the_runtime_free() {
    let desk = Desk::new();
    desk.put("work/a", "x".repeat(5_000_000));
    let ticks = AtomicUsize::new(0);
    let mut longest = Duration::ZERO;
    let ticking = async {
        let mut last = Instant::now();
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            ticks.fetch_add(1, Ordering::Relaxed);
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
    };
    let working = async {
        desk.run("Bash", json!({ "command": "yes", "timeout": 3000 })).await;
        desk.run("Grep", json!({ "pattern": "(x+x+)+y" })).await;
        desk.read("a").await;
    };
    tokio::select! {
        () = ticking => unreachable!(),
        () = working => {}
    }
    // A busy machine makes everybody wait a little.
    assert!(longest < Duration::from_millis(1500) && ticks.into_inner() > 20, "{longest:?}");
}
