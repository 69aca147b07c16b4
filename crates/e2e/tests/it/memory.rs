//! A command that takes more memory than there is.

use std::{
    fs,
    path::{Path, PathBuf},
};

use omoi_protocol::event::Payload;

use crate::{
    house::House,
    worker::{Worker, launch},
};

const LIMIT_BYTES: &str = "67108864";

/// A control group with little memory, in whichever version this machine has. Gone with this.
struct Group(PathBuf);

impl Group {
    fn make() -> Self {
        let name = format!("omoi-e2e-{}", std::process::id());
        let (old, new) = (Path::new("/sys/fs/cgroup/memory"), Path::new("/sys/fs/cgroup"));
        let (dir, limit) = if old.is_dir() {
            (old.join(name), "memory.limit_in_bytes")
        } else {
            (new.join(name), "memory.max")
        };
        fs::create_dir(&dir).expect("a test of too little memory makes a control group, which takes root");
        let group = Self(dir);
        fs::write(group.0.join(limit), LIMIT_BYTES).unwrap();
        // Without it the rest would go to swap, where there is any.
        for (file, value) in [("memory.memsw.limit_in_bytes", LIMIT_BYTES), ("memory.swap.max", "0")] {
            if group.0.join(file).exists() {
                fs::write(group.0.join(file), value).unwrap();
            }
        }
        group
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_is_killed_for_want_of_memory_is_told_apart_from_one_that_is_killed() {
    let (house, group) = (House::open().await, Group::make());
    let attached = house.attach(None).await;
    // It keeps what it reads, and reads without end.
    let launch = launch(&house, &attached, &["tail", "/dev/zero"]);
    assert_eq!(Worker::run_in(&group.0, house.dir.path(), &launch).code().await, 137);
    let Payload::AgentFailed(failed) = house.told(&attached.sandbox.id, "agent.failed").await.payload()
    else {
        panic!()
    };
    assert_eq!((failed.failure_kind.as_deref(), failed.signal), (Some("out_of_memory"), Some(9)));
    drop(group);
}
