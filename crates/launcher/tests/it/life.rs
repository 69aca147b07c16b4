//! Beginning, end, and what is left of a sandbox.

use std::fs;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use omoi_launcher::{Answer, Control, How, Layer, Status};
use rustix::process::{Pid, Signal, kill_process};

use crate::limits::wait_for;
use crate::needs;
use crate::sandbox::{Place, Sandbox, command, is_root, launcher};

#[test]
fn every_layer_is_had_here() {
    needs!(is_root(), "root");
    let place = Place::new();
    let sandbox = place.start(&place.plan());
    for report in &sandbox.state.layers {
        assert_eq!(report.status, Status::Yes, "{report:?}");
    }
    assert_eq!(sandbox.state.layers.len(), 16);
    assert_eq!(sandbox.directory().state().unwrap().unwrap().pid, sandbox.state.pid);
    assert_eq!(sandbox.state.labels["task"], "t-1");
}

#[test]
fn a_layer_that_is_missing_refuses_by_its_name_and_leaves_nothing() {
    needs!(is_root(), "root");
    let place = Place::new();
    for layer in [
        Layer::UserNamespace,
        Layer::MountNamespace,
        Layer::PidNamespace,
        Layer::NetworkNamespace,
        Layer::IdRanges,
        Layer::MemoryLimit,
        Layer::PidsLimit,
        Layer::Seccomp,
        Layer::NoNewPrivs,
        Layer::Capabilities,
    ] {
        let mut plan = place.plan();
        plan.deny = vec![layer];
        let refusal = place.refused(&plan);
        assert_eq!(refusal.layer, layer);
        assert!(!refusal.fix.is_empty());
        nothing_left(&plan.dir, &plan.id);
        let left: Vec<_> = fs::read_dir(&plan.dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name == "lock"), "{layer}: {left:?}");
    }
    let mut plan = place.plan();
    plan.deny = vec![Layer::DiskCap];
    plan.limits.disk_hard = true;
    assert_eq!(place.refused(&plan).layer, Layer::DiskCap);
}

#[test]
fn layers_that_may_be_missing_are_reported_and_the_sandbox_works() {
    needs!(is_root(), "root");
    let place = Place::new();
    for (layer, status) in [
        (Layer::Overlay, Status::Reduced),
        (Layer::IdmappedMounts, Status::Reduced),
        (Layer::DiskCap, Status::Reduced),
        (Layer::CgroupKill, Status::Reduced),
        (Layer::CpuLimit, Status::No),
        (Layer::Landlock, Status::No),
    ] {
        let mut plan = place.plan();
        plan.deny = vec![layer];
        let sandbox = place.start(&plan);
        assert_eq!(sandbox.layer(layer), status);
        let said = sandbox.ok("cat README && echo new > new && stat -c %U README new && ls /etc/passwd");
        assert_eq!(said, "of the checkout\nagent\nagent\n/etc/passwd\n", "{layer}");
        assert!(sandbox.sh("echo x > /etc/passwd").exit.how != How::Code(0));
    }
}

#[test]
fn a_command_that_is_not_there_refuses_and_leaves_nothing() {
    needs!(is_root(), "root");
    let place = Place::new();
    let mut plan = place.plan();
    plan.argv = vec!["no-such-program".to_owned()];
    let refusal = place.refused(&plan);
    assert_eq!(refusal.layer, Layer::Command);
    assert!(refusal.detail.contains("no-such-program"), "{refusal}");
    assert!(!plan.dir.join("disk.img").exists());
    nothing_left(&plan.dir, &plan.id);
}

#[test]
fn a_second_run_finds_the_first() {
    needs!(is_root(), "root");
    let place = Place::new();
    let plan = place.plan();
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| launcher().run(&plan).unwrap())).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let started: Vec<_> = answers
        .iter()
        .filter_map(|answer| if let Answer::Started(state) = answer { Some(state) } else { None })
        .collect();
    assert_eq!(started.len(), 1, "{answers:?}");
    for answer in &answers {
        assert!(!matches!(answer, Answer::Exists(state) if state.pid != started[0].pid));
        assert!(!matches!(answer, Answer::Refused(_)), "{answer:?}");
    }
    let _sandbox = Sandbox { plan, state: started[0].clone() };
}

#[test]
fn a_daemon_that_forked_twice_is_gone_after_stop() {
    needs!(is_root(), "root");
    let place = Place::new();
    let sandbox = place.start(&place.plan());
    let marker = format!("4{}", std::process::id());
    sandbox.ok(&format!("(setsid sh -c 'setsid sleep {marker} >/dev/null 2>&1 &' &) >/dev/null 2>&1"));
    let daemon = || {
        let mut processes = fs::read_dir("/proc").unwrap().flatten();
        processes.any(|entry| {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            line == format!("sleep\0{marker}\0").as_bytes()
        })
    };
    wait_for(daemon);
    sandbox.control().stop(Duration::from_millis(100)).unwrap();
    sandbox.directory().wait_gone().unwrap();
    assert!(!daemon(), "the lock is free and the daemon lives");
}

#[test]
fn stop_asks_first_and_kills_after_the_grace() {
    needs!(is_root(), "root");
    let place = Place::new();
    let mut plan = place.plan();
    plan.argv = command("trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.01; done");
    let polite = place.start(&plan);
    wait_for(|| polite.log().contains("ready"));
    let ended = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| polite.control().wait().unwrap());
        wait_for(|| polite.log().contains("ready"));
        polite.control().stop(Duration::from_secs(20)).unwrap();
        waiter.join()
    });
    polite.directory().wait_gone().unwrap();
    assert_eq!(polite.directory().exit().unwrap().unwrap().how, How::Code(7));
    drop(ended);
    assert!(polite.log().contains("asked"));

    let mut plan = place.plan();
    plan.argv = command("trap '' TERM; echo ready; while :; do sleep 0.01; done");
    let stubborn = place.start(&plan);
    wait_for(|| stubborn.log().contains("ready"));
    stubborn.control().stop(Duration::from_millis(50)).unwrap();
    stubborn.directory().wait_gone().unwrap();
    assert_eq!(stubborn.directory().exit().unwrap().unwrap().how, How::Signal(9));
}

#[test]
fn a_sandbox_lingers_after_its_command_unless_told_otherwise() {
    needs!(is_root(), "root");
    let place = Place::new();
    let mut plan = place.plan();
    plan.argv = command("echo done > /workspace/done; exit 3");
    let stays = place.start(&plan);
    assert_eq!(stays.control().wait().unwrap().how, How::Code(3));
    assert_eq!(stays.ok("cat /workspace/done"), "done\n");
    let mut plan = place.plan();
    (plan.argv, plan.linger) = (command("exit 3"), false);
    let goes = place.start(&plan);
    goes.directory().wait_gone().unwrap();
    assert_eq!(goes.directory().exit().unwrap().unwrap().how, How::Code(3));
}

#[test]
fn whoever_leaves_a_command_alone_kills_it() {
    needs!(is_root(), "root");
    let place = Place::new();
    let sandbox = place.start(&place.plan());
    let null = fs::File::open("/dev/null").unwrap();
    let stdio = [null.as_fd(), null.as_fd(), null.as_fd()];
    let exec = sandbox.exec_of(command("sleep 987 & sleep 987 & wait"));
    let running = sandbox.control().exec(&exec, stdio).unwrap();
    wait_for(|| sandbox.ok("ps ax -o args").matches("sleep 987").count() >= 2);
    drop(running);
    wait_for(|| !sandbox.ok("ps ax -o args | grep -v ps").contains("sleep 987"));
    let missing = sandbox.control().exec(&sandbox.exec_of(vec!["/no/such".to_owned()]), stdio).unwrap_err();
    assert!(missing.to_string().contains("/no/such"), "{missing}");
    assert_eq!(sandbox.sh("exit 42").exit.how, How::Code(42));
    assert_eq!(sandbox.sh("kill -9 $$").exit.how, How::Signal(9));
}

#[test]
fn an_init_that_is_killed_frees_everything() {
    needs!(is_root(), "root");
    let place = Place::new();
    let sandbox = place.start(&place.plan());
    sandbox.ok("(setsid sleep 900 &) >/dev/null 2>&1");
    kill_process(Pid::from_raw(sandbox.state.pid).unwrap(), Signal::KILL).unwrap();
    sandbox.directory().wait_gone().unwrap();
    assert!(Control::open(&sandbox.plan.dir).is_err());
    launcher().remove(&sandbox.plan.dir).unwrap();
    nothing_left(&sandbox.plan.dir, &sandbox.plan.id);
    assert!(!sandbox.plan.dir.exists());
    for group in sandbox.cgroup_paths() {
        assert!(!group.exists(), "{}", group.display());
    }
    launcher().remove(&sandbox.plan.dir).unwrap();
}

#[test]
fn kill_needs_no_answer_of_the_init() {
    needs!(is_root(), "root");
    let place = Place::new();
    let sandbox = place.start(&place.plan());
    let init = Pid::from_raw(sandbox.state.pid).unwrap();
    kill_process(init, Signal::STOP).unwrap();
    launcher().kill(&sandbox.plan.dir).unwrap();
    assert!(!sandbox.directory().alive().unwrap());
    assert!(sandbox.plan.dir.join("disk.img").exists(), "kill keeps the work");
}

#[test]
fn a_rescue_sees_what_a_dead_sandbox_did() {
    needs!(is_root(), "root");
    let place = Place::new();
    for deny in [vec![], vec![Layer::DiskCap]] {
        let mut plan = place.plan();
        plan.deny = deny;
        plan.argv = command("echo said; exec sleep infinity");
        let first = place.start(&plan);
        first.ok("echo work > /workspace/work; rm README; echo note > /home/agent/note; sync");
        launcher().kill(&plan.dir).unwrap();
        let second = place.start(&plan);
        assert_ne!(second.state.pid, first.state.pid);
        assert_eq!(second.ok("cat /workspace/work /home/agent/note; ls"), "work\nnote\nwork\n");
        wait_for(|| second.log() == "said\nsaid\n");
        launcher().kill(&plan.dir).unwrap();
        plan.fresh = true;
        let third = place.start(&plan);
        assert_eq!(third.ok("ls /workspace /home/agent"), "/home/agent:\n\n/workspace:\nREADME\n");
    }
}

#[test]
fn a_rescue_follows_no_link_that_the_dead_left() {
    needs!(is_root(), "root");
    let place = Place::new();
    let outside = place.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let mut plan = place.plan();
    (plan.root_inside, plan.uid, plan.gid) = (true, 0, 0);
    plan.workspace = None;
    plan.cwd = "/".into();
    let first = place.start(&plan);
    // The next start makes a place for the worker below /omoi.
    let exec = omoi_launcher::Exec {
        cwd: "/".into(),
        ..first.exec_of(command(&format!("ln -s {} /omoi", outside.display())))
    };
    let null = fs::File::open("/dev/null").unwrap();
    let stdio = [null.as_fd(), null.as_fd(), null.as_fd()];
    assert_eq!(first.control().exec(&exec, stdio).unwrap().wait().unwrap().how, How::Code(0));
    launcher().kill(&plan.dir).unwrap();
    plan.binds.push(omoi_launcher::Bind { from: "/usr/bin/env".into(), to: "/omoi/worker".into() });
    let refusal = place.refused(&plan);
    assert_eq!(refusal.layer, Layer::Image, "{refusal}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    launcher().remove(&plan.dir).unwrap();
}

/// Nothing of a sandbox is mounted, attached or grouped on the host.
fn nothing_left(dir: &Path, id: &str) {
    let text = dir.to_string_lossy();
    assert!(!fs::read_to_string("/proc/mounts").unwrap().contains(&*text));
    // The kernel lets go of a loop device a moment after its last user.
    wait_for(|| {
        let loops = fs::read_dir("/sys/block").unwrap().flatten();
        !loops.into_iter().any(|entry| {
            fs::read_to_string(entry.path().join("loop/backing_file")).is_ok_and(|file| file.contains(&*text))
        })
    });
    for group in fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
        assert!(!group.path().join("omoi").join(id).exists(), "{}", group.path().display());
    }
}
