//! What a sandbox sees: its image, its workspace, its own processes, its plan's environment. Nothing of the host.

use std::fs;

use omoi_launcher::File;

use crate::needs;
use crate::sandbox::{Place, is_root};

#[test]
fn files_of_the_host_and_of_other_sandboxes_are_not_there() {
    needs!(is_root(), "root");
    let place = Place::new();
    let secret = place.path().join("secret");
    fs::write(&secret, "the host's secret").unwrap();
    let (one, other) = (place.start(&place.plan()), place.start(&place.plan()));
    other.ok("echo mine > /workspace/mine; echo mine > /home/agent/mine; echo mine > /tmp/mine");
    let script = format!(
        "for path in {} {} {} /etc/shadow /etc/ssh /root/.ssh /var/run/docker.sock /run/systemd /home/agent/mine /tmp/mine \
         /workspace/mine /var/tmp/launcher-*; do test -e $path && echo seen $path; done; ls /home /root /run /mnt /media 2>&1",
        secret.display(),
        other.plan.dir.display(),
        place.path().display(),
    );
    let said = one.sh(&script).text;
    assert!(!said.contains("seen"), "{said}");
    assert!(said.contains("/home:\nagent\n"), "{said}");
    assert!(said.contains("/run:\nomoi\n"), "{said}");
    assert!(one.sh("cat README").text.contains("of the checkout"));
}

#[test]
fn the_root_of_the_host_cannot_be_reached_by_its_processes_or_descriptors() {
    needs!(is_root(), "root");
    let place = Place::new();
    let sandbox = place.start(&place.plan());
    let said = sandbox.sh(
        "ls -d /proc/[0-9]* | tr '\\n' ' '; ls /proc/1/ 2>&1; cat /proc/1/environ 2>&1; ls /proc/self/fd | tr '\\n' ' '; \
         cat /proc/self/cgroup; cat /proc/self/mountinfo",
    );
    assert!(!said.text.contains("/proc/1 "), "the init shows: {}", said.text);
    assert!(
        said.text.contains("ls: cannot access '/proc/1/'") && said.text.contains("cat: /proc/1/environ"),
        "{}",
        said.text
    );
    let number = |word: &&str| word.strip_prefix("/proc/").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let processes = said.text.split_whitespace().filter(number).count();
    assert!((2..6).contains(&processes), "processes of the host show: {}", said.text);
    let id = &sandbox.plan.id;
    assert!(!said.text.contains(id.as_str()), "the sandbox's place on the host shows: {}", said.text);
    assert!(said.text.contains("0 1 2 3 "), "a descriptor of the init came along: {}", said.text);
}

#[test]
fn the_environment_is_the_plan_s_to_the_letter() {
    needs!(is_root(), "root");
    let place = Place::new();
    let mut plan = place.plan();
    plan.argv = vec!["/usr/bin/env".to_owned()];
    plan.env = [("ONE", "1"), ("TWO", "two words")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    let sandbox = place.start(&plan);
    sandbox.control().wait().unwrap();
    assert_eq!(sandbox.log(), "ONE=1\nTWO=two words\n");
}

#[test]
fn a_launch_file_is_the_user_s_own_and_nobody_else_s() {
    needs!(is_root(), "root");
    let place = Place::new();
    let mut plan = place.plan();
    plan.files.push(File {
        path: "deep/launch.json".into(),
        mode: 0o400,
        content: "{\"token\":1}".to_owned(),
    });
    let sandbox = place.start(&plan);
    let said = sandbox.ok("stat -c '%a %U %F' /run/omoi/deep/launch.json; cat /run/omoi/deep/launch.json");
    assert_eq!(said, "400 agent regular file\n{\"token\":1}");
    assert!(sandbox.ok("stat -f -c %T /run/omoi").contains("tmpfs"));
}

#[test]
fn usual_tools_work() {
    needs!(is_root(), "root");
    let place = Place::new();
    let sandbox = place.start(&place.plan());
    for (tool, script) in [
        (
            "git",
            "git init -q /tmp/r && cd /tmp/r && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log",
        ),
        ("gcc", "echo 'int main(void){return 0;}' > /tmp/a.c && gcc /tmp/a.c -o /tmp/a && /tmp/a"),
        (
            "python3",
            "/usr/bin/python3 -c 'import ssl, sqlite3, subprocess; subprocess.run([\"true\"], check=True)'",
        ),
        ("id", "test \"$(id -un)\" = agent && test \"$(hostname)\" = sandbox"),
        ("script", "script -qec 'tty' /dev/null | grep -q /dev/pts/"),
    ] {
        if sandbox.sh(&format!("command -v {tool}")).exit.how == omoi_launcher::How::Code(0) {
            sandbox.ok(script);
        }
    }
}
