//! Bombs of every kind: each hits its own bound and leaves the sandbox answering.

use std::fs;
use std::os::fd::AsFd as _;

use omoi_launcher::How;

use crate::needs;
use crate::sandbox::{MIB, Place, command, has_python, is_root};

#[test]
fn a_fork_bomb_is_held_and_the_sandbox_still_answers() {
    needs!(is_root(), "root");
    needs!(has_python(), "/usr/bin/python3");
    let place = Place::new();
    let mut plan = place.plan();
    // Forks until it is refused, says so, and then holds on to what it has.
    plan.argv = vec!["/usr/bin/python3".to_owned(), "-uc".to_owned(), BOMB.to_owned()];
    let sandbox = place.start(&plan);
    let log = sandbox.directory().log();
    wait_for(|| fs::read_to_string(&log).unwrap().contains("refused"));
    let usage = sandbox.control().usage().unwrap();
    assert_eq!(usage.pids, Some(u64::from(plan.limits.pids)));
    assert!(sandbox.control().status().unwrap().is_none());
    sandbox.control().stop(std::time::Duration::ZERO).unwrap();
    sandbox.directory().wait_gone().unwrap();
}

const BOMB: &str = "
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0: signal.pause()
    except OSError as error:
        print('refused', error); break
signal.pause()
";

#[test]
fn a_memory_bomb_is_killed_and_its_end_says_why() {
    needs!(is_root(), "root");
    needs!(has_python(), "/usr/bin/python3");
    let place = Place::new();
    let mut plan = place.plan();
    plan.argv = vec![
        "/usr/bin/python3".to_owned(),
        "-c".to_owned(),
        "x = [bytearray(1 << 20) for _ in range(4096)]".to_owned(),
    ];
    let sandbox = place.start(&plan);
    let exit = sandbox.control().wait().unwrap();
    assert_eq!((exit.how, exit.oom), (How::Signal(9), true));
    assert_eq!(sandbox.directory().exit().unwrap(), Some(exit));
    assert!(sandbox.control().usage().unwrap().oom_kills.unwrap() > 0);
    assert_eq!(sandbox.ok("cat /proc/self/oom_score_adj"), "500\n");
}

#[test]
fn memory_file_systems_count_as_memory() {
    needs!(is_root(), "root");
    let place = Place::new();
    let mut plan = place.plan();
    plan.limits.tmp_bytes = 1 << 40;
    let sandbox = place.start(&plan);
    let said = sandbox.sh("dd if=/dev/zero of=/tmp/full bs=1M count=400 2>&1; echo survived");
    assert!(said.exit.oom, "{said:?}");
}

#[test]
fn a_full_disk_is_the_sandbox_s_own() {
    needs!(is_root(), "root");
    let place = Place::new();
    let mut plan = place.plan();
    plan.limits.disk_hard = true;
    let sandbox = place.start(&plan);
    for place in ["/workspace", "/home/agent"] {
        let said = sandbox.sh(&format!("dd if=/dev/zero of={place}/full bs=1M count=200"));
        assert!(said.text.contains("No space left on device"), "{}", said.text);
        assert!(matches!(said.exit.how, How::Code(1)));
        let used = sandbox.control().usage().unwrap().disk_used_bytes.unwrap();
        assert!(used > 64 * MIB && used <= plan.limits.disk_bytes, "{used}");
        sandbox.ok(&format!("rm {place}/full"));
    }
    let said = sandbox.sh("dd if=/dev/zero of=/tmp/full bs=1M count=100");
    assert!(said.text.contains("No space left on device"), "{}", said.text);
}

#[test]
fn a_hundred_thousand_files_are_bounded_or_harmless() {
    needs!(is_root(), "root");
    needs!(has_python(), "/usr/bin/python3");
    let place = Place::new();
    let sandbox = place.start(&place.plan());
    for dir in ["/tmp", "/workspace", "/dev/shm"] {
        let said = sandbox.python(&format!(
            "import os\nos.makedirs('{dir}/many')\ntry:\n  for i in range(100000): open('{dir}/many/%d' % i, 'w').close()\n\
             except OSError as error: print(error)"
        ));
        assert!(said.text.contains("No space left on device") || said.exit.oom, "{dir}: {said:?}");
        assert!(sandbox.control().status().is_ok());
    }
}

#[test]
fn a_gigabyte_of_output_costs_little_disk_and_no_answer() {
    needs!(is_root(), "root");
    let place = Place::new();
    let mut plan = place.plan();
    plan.argv = command("head -c 1073741824 /dev/zero | tr '\\0' x; echo the end");
    let sandbox = place.start(&plan);
    let exit = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| sandbox.control().wait().unwrap());
        while !waiter.is_finished() {
            sandbox.control().usage().unwrap();
        }
        waiter.join().unwrap()
    });
    assert_eq!(exit.how, How::Code(0));
    let size = |path: std::path::PathBuf| fs::metadata(path).unwrap().len();
    let (new, old) = (size(sandbox.directory().log()), size(sandbox.directory().log_old()));
    assert!(new + old <= plan.limits.log_bytes && new + old > plan.limits.log_bytes / 4, "{new} {old}");
    assert!(sandbox.log().ends_with("the end\n"));
}

#[test]
fn the_processor_is_shared_by_quota() {
    needs!(is_root(), "root");
    let place = Place::new();
    let mut plan = place.plan();
    plan.limits.cpu_millis = 200;
    let sandbox = place.start(&plan);
    let null = fs::File::open("/dev/null").unwrap();
    let stdio = [null.as_fd(), null.as_fd(), null.as_fd()];
    let started = std::time::Instant::now();
    let running = sandbox
        .control()
        .exec(&sandbox.exec_of(command("i=0; while test $i -lt 400000; do i=$((i+1)); done")), stdio);
    running.unwrap().wait().unwrap();
    let (elapsed, used) = (started.elapsed(), sandbox.control().usage().unwrap().cpu_micros.unwrap());
    let share = used as f64 / elapsed.as_micros() as f64;
    assert!(used > 50_000, "{used}: too little to tell");
    assert!(share < 0.4, "a fifth of a processor was given, {share} was used");
}

/// For what the kernel does and tells nobody about.
pub fn wait_for(condition: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "it does not come about");
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "there is no event to wait for")]
fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(5));
}
