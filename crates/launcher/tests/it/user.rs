//! The launcher as an ordinary user, which each test makes for itself.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use omoi_launcher::{Answer, How, Ids, Launcher, Layer, Plan, Status};

use crate::limits::wait_for;
use crate::needs;
use crate::sandbox::{Place, Sandbox, is_root};

/// An account with a range of ids, and a launcher that runs as it.
struct User {
    name: String,
    uid: u32,
    ids: Ids,
    place: Place,
}

impl User {
    fn new() -> Self {
        let name = format!("omoi{}", std::process::id());
        let base = 3_600_000_000 + std::process::id() % 9000 * 65_536;
        let uid = 20_000 + std::process::id() % 30_000;
        run(&["useradd", "--no-create-home", "--uid", &uid.to_string(), &name]);
        let range = format!("{base}-{}", base + 65_535);
        run(&["usermod", "--add-subuids", &range, "--add-subgids", &range, &name]);
        let place = Place::new();
        for path in
            [place.path().to_owned(), place.path().join("checkout"), place.path().join("checkout/README")]
        {
            chown(path, Some(uid), Some(uid)).unwrap();
        }
        let program = place.path().join("omoi-launcher");
        fs::copy(env!("CARGO_BIN_EXE_omoi-launcher"), &program).unwrap();
        let wrapper = place.path().join("as-user");
        let script = format!(
            "#!/bin/sh\nexec setpriv --reuid {uid} --regid {uid} --clear-groups {} \"$@\"\n",
            program.display()
        );
        fs::write(&wrapper, script).unwrap();
        fs::set_permissions(wrapper, Permissions::from_mode(0o755)).unwrap();
        Self { name, uid, ids: Ids { base, count: 65_536 }, place }
    }

    fn launcher(&self) -> Launcher {
        Launcher::new(self.place.path().join("as-user"))
    }

    fn plan(&self) -> Plan {
        let mut plan = self.place.plan();
        plan.ids = self.ids;
        chown(&plan.dir, Some(self.uid), Some(self.uid)).unwrap();
        plan
    }
}

impl Drop for User {
    fn drop(&mut self) {
        run(&["userdel", &self.name]);
    }
}

#[expect(clippy::disallowed_methods, reason = "accounts are made by the system's own tools")]
fn run(command: &[&str]) {
    wait_for(|| {
        let output = Command::new(command[0]).args(&command[1..]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        // Another test may be changing the accounts.
        assert!(output.status.success() || said.contains("lock"), "{command:?}: {said}");
        output.status.success()
    });
}

fn can_map() -> bool {
    is_root() && Path::new("/usr/bin/newuidmap").exists()
}

#[test]
fn ids_that_are_nobody_s_to_give_are_refused_with_the_way_to_get_them() {
    needs!(is_root(), "root");
    let user = User::new();
    let mut plan = user.plan();
    plan.allow.soft_limits = true;
    plan.ids.base -= 65_536;
    let Answer::Refused(refusal) = user.launcher().run(&plan).unwrap() else { panic!("not refused") };
    assert_eq!(refusal.layer, Layer::IdRanges);
    assert!(refusal.fix.contains("uidmap") && refusal.fix.contains("/etc/subuid"), "{refusal}");
}

#[test]
fn a_limit_that_cannot_be_had_is_refused_by_its_name() {
    needs!(can_map(), "root and newuidmap");
    let user = User::new();
    let Answer::Refused(refusal) = user.launcher().run(&user.plan()).unwrap() else { panic!("not refused") };
    assert_eq!(refusal.layer, Layer::MemoryLimit);
    assert!(refusal.fix.contains("soft_limits"), "{refusal}");
}

#[test]
fn a_user_with_a_range_has_a_sandbox_with_limits_per_process() {
    needs!(can_map(), "root and newuidmap");
    let user = User::new();
    let mut plan = user.plan();
    plan.allow.soft_limits = true;
    let state = match user.launcher().run(&plan).unwrap() {
        Answer::Started(state) => state,
        other => panic!("not started: {other:?}"),
    };
    let sandbox = Sandbox { plan, state };
    assert_eq!(sandbox.layer(Layer::IdRanges), Status::Yes);
    assert_eq!(sandbox.layer(Layer::MemoryLimit), Status::Reduced);
    let said = sandbox
        .ok("id -u; cat README; echo new > new; stat -c %U README new; awk '{print $2}' /proc/self/uid_map");
    assert_eq!(said, format!("1000\nof the checkout\nagent\nagent\n{}\n", user.ids.base));
    assert_ne!(sandbox.sh("echo x > /etc/x").exit.how, How::Code(0));
    assert_ne!(sandbox.sh("unshare -U true").exit.how, How::Code(0));
    sandbox.ok("mkdir -p deep/er && touch deep/er/file && chmod 000 deep/er/file && chmod 500 deep/er deep");
    user.launcher().remove(&sandbox.plan.dir).unwrap();
    assert!(!sandbox.plan.dir.exists());
}

#[test]
fn one_shared_id_must_be_allowed_and_is_reported() {
    needs!(is_root(), "root");
    let user = User::new();
    let mut plan = user.plan();
    plan.ids.base -= 65_536;
    plan.allow.soft_limits = true;
    plan.allow.shared_id = true;
    let state = match user.launcher().run(&plan).unwrap() {
        Answer::Started(state) => state,
        other => panic!("not started: {other:?}"),
    };
    let sandbox = Sandbox { plan, state };
    assert_eq!(sandbox.layer(Layer::IdRanges), Status::Reduced);
    let said = sandbox.ok("id -u; cat README; echo new > new; stat -c %U new; rm README");
    assert_eq!(said, "1000\nof the checkout\nagent\n");
    assert!(user.place.path().join("checkout/README").exists());
    sandbox.sh("kill -9 1; kill -15 1");
    assert!(sandbox.control().status().unwrap().is_none(), "a signal from inside reached the init");
    user.launcher().remove(&sandbox.plan.dir).unwrap();
    assert!(!sandbox.plan.dir.exists());
}

#[test]
fn a_probe_says_of_every_layer_what_the_user_can_have() {
    needs!(can_map(), "root and newuidmap");
    let user = User::new();
    let reports = user.launcher().probe(&user.place.path().join("cache")).unwrap();
    let status = |layer: Layer| reports.iter().find(|report| report.layer == layer).unwrap().status;
    assert_eq!(status(Layer::UserNamespace), Status::Yes);
    assert_eq!(status(Layer::IdRanges), Status::Yes);
    assert_eq!(status(Layer::MemoryLimit), Status::Reduced);
    assert_eq!(status(Layer::Seccomp), Status::Yes);
    assert!(
        reports.iter().filter(|report| report.status != Status::Yes).all(|report| !report.fix.is_empty())
    );
    let as_root = crate::sandbox::launcher().probe(&user.place.path().join("cache-of-root")).unwrap();
    assert_eq!(as_root.len(), reports.len());
    assert!(as_root.iter().all(|report| report.status == Status::Yes), "{as_root:?}");
}
