//! What a hostile sandbox tries, with a real one. Each case must be contained, the server must stay well, and what a
//! person should know must be an event.

use serde_json::{Value, json};

use crate::{
    git::{Mirror, Repository},
    omoi::{As, Omoi, Ran, data},
    traces::Traces,
};

/// A server, a project, and a script in a sandbox of it.
async fn attack(script: &str) -> (Omoi, Ran) {
    let omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let ran = omoi.sh(&project, script).await;
    still_well(&omoi).await;
    (omoi, ran)
}

async fn still_well(omoi: &Omoi) {
    assert_eq!(omoi.get("/ready").await["status"], "ready");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_host_s_files_are_not_there() {
    let secret = tempfile::NamedTempFile::new_in("/root").unwrap();
    std::fs::write(secret.path(), "the host's secret").unwrap();
    let omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let other = omoi
        .order(&project, &["/bin/sh", "-c", "echo other > /workspace/other; echo ready; exec sleep 1000"])
        .await;
    omoi.until_event(&other, "command.output").await;
    let script = format!(
        "cat {secret} 2>&1; ls -a /root /home {data} 2>&1; ls /proc | grep -c '^[0-9]'; cat /etc/shadow 2>&1; \
         grep -rs \"host's secret\" /root /home /tmp /var 2>/dev/null; find / -name 'omoi.d[b]' 2>/dev/null; \
         find / -name other -path '*workspace*' 2>/dev/null; cat /proc/*/cmdline | tr '\\0' ' '",
        secret = secret.path().display(),
        data = omoi.data().display(),
    );
    let ran = omoi.sh(&project, &script).await;
    for leaked in ["the host's secret", "omoi.db", "/other", "omoi serve", &other.to_string()] {
        assert!(!ran.stdout.contains(leaked), "{leaked} shows: {}", ran.stdout);
    }
    omoi.terminate(&other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_outside_the_sandbox_can_be_written() {
    let (_omoi, ran) = attack(
        "for f in /usr/bin/x /etc/x /x /omoi/worker /proc/sys/kernel/hostname /sys/x /dev/x; do \
         (echo x > $f) 2>/dev/null && echo wrote $f; done; echo done",
    )
    .await;
    assert!(ran.ok().ends_with("done"), "{ran:?}");
    // What is written is written into its own layer, never into the host.
    for path in ["/usr/bin/x", "/etc/x", "/x"] {
        assert!(!std::path::Path::new(path).exists(), "{path} is on the host");
    }
    assert!(!ran.stdout.contains("/proc/sys") && !ran.stdout.contains("/omoi/worker"), "{}", ran.stdout);
}

/// System calls that lead out of a sandbox, tried one after the other: each must fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn system_calls_that_lead_out_are_refused() {
    let script = r#"
import ctypes, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    result = libc.syscall(*args)
    print(name, "refused" if result == -1 else "ALLOWED %d" % result, flush=True)
call("mount", 165, b"none", b"/tmp", b"tmpfs", 0, 0)
call("umount2", 166, b"/proc", 2)
call("unshare user", 272, 0x10000000)
call("unshare mount", 272, 0x00020000)
call("clone user", 56, 0x10000000 | 17, 0, 0, 0, 0)
call("setns", 308, 0, 0)
call("pivot_root", 155, b"/tmp", b"/tmp")
call("chroot", 161, b"/tmp")
call("mknod", 133, b"/tmp/sda", 0o60600, 0x800)
call("ptrace attach init", 101, 16, 1, 0, 0)
call("process_vm_readv", 310, 1, 0, 0, 0, 0, 0)
call("keyctl", 250, 0, -3, 1)
call("add_key", 248, b"user", b"a", b"b", 1, -3)
call("io_uring_setup", 425, 8, ctypes.create_string_buffer(120))
call("bpf", 321, 0, ctypes.create_string_buffer(120), 120)
call("perf_event_open", 298, ctypes.create_string_buffer(120), 0, -1, -1, 0)
call("userfaultfd", 323, 0)
call("open_by_handle_at", 304, -100, ctypes.create_string_buffer(64), 0)
call("init_module", 175, 0, 0, b"")
call("kexec_load", 246, 0, 0, 0, 0)
call("reboot", 169, 0xfee1dead, 672274793, 0, 0)
call("swapon", 167, b"/tmp/x", 0)
call("settimeofday", 164, ctypes.create_string_buffer(16), 0)
call("sethostname", 170, b"x", 1)
call("kill init", 62, 1, 9) if libc.syscall(62, 1, 0) != 0 else print("kill init ignored by the kernel refused")
for family, kind, name in [(17, 3, "AF_PACKET"), (16, 3, "AF_NETLINK kobject"), (40, 1, "AF_VSOCK"), (38, 5, "AF_ALG")]:
    try:
        socket.socket(family, kind, 15 if family == 16 else 0); print(name, "ALLOWED")
    except OSError: print(name, "refused")
try:
    os.setuid(0); print("setuid", "ALLOWED")
except OSError: print("setuid refused")
print("caps", [line.split()[1] for line in open("/proc/self/status") if line.startswith(("CapEff", "CapPrm", "CapBnd"))])
print("nnp", [line.split()[1] for line in open("/proc/self/status") if line.startswith("NoNewPrivs")])
"#;
    let omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let ran = omoi.run(&project, &["/usr/bin/python3", "-c", script]).await;
    let said = ran.ok();
    assert!(!said.contains("ALLOWED"), "{said}");
    assert!(said.lines().filter(|line| line.ends_with("refused")).count() >= 28, "{said}");
    assert!(said.contains("caps ['0000000000000000', '0000000000000000', '0000000000000000']"), "{said}");
    assert!(said.contains("nnp ['1']"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_setuid_program_gives_nothing() {
    let (_omoi, ran) = attack(
        "cp /usr/bin/id /tmp/id; chmod 4755 /tmp/id; /tmp/id -u; (su -c id || sudo id) 2>&1 | head -3",
    )
    .await;
    assert!(ran.stdout.starts_with("1000\n"), "{ran:?}");
    assert!(!ran.stdout.contains("uid=0"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_bomb_stays_inside() {
    let omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let id = omoi.order(&project, &["/bin/sh", "-c", "b() { b | b & }; b; echo bombing; sleep 1000"]).await;
    omoi.until(&id, |event| event.event_type.starts_with("command.")).await;
    still_well(&omoi).await;
    let beside = omoi.sh(&project, "echo beside it").await;
    assert_eq!(beside.ok(), "beside it");
    omoi.terminate(&id).await;
    omoi.gone(&id).await;
    Traces::assert_none(&omoi.data(), &[id.to_string()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_memory_bomb_is_killed_and_named() {
    let omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let bomb = "x = []\nwhile True: x.append(bytearray(64 << 20))";
    let body = json!({ "command": ["/usr/bin/python3", "-c", bomb], "memory_gb": 1 });
    let id = omoi.order_with(&project, body).await;
    omoi.gone(&id).await;
    let sandbox = omoi.sandbox(&id).await;
    assert_eq!(sandbox.end_reason.as_deref(), Some("out_of_memory"), "{sandbox:?}");
    still_well(&omoi).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_filler_stops_at_its_cap() {
    let omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let script = "dd if=/dev/zero of=/workspace/target bs=1M 2>/dev/null; stat -c %s /workspace/target; rm /workspace/target; \
                  dd if=/dev/zero of=/tmp/big bs=1M 2>/dev/null; stat -c %s /tmp/big; \
                  dd if=/dev/zero of=/home/agent/big bs=1M 2>/dev/null; stat -c %s /home/agent/big";
    let id = omoi
        .order_with(&project, json!({ "command": ["/bin/sh", "-c", script], "disk_gb": 1, "memory_gb": 1 }))
        .await;
    let seen = omoi.gone(&id).await;
    let said: String = seen
        .iter()
        .filter(|event| event.event_type == "command.output")
        .map(|event| data(event)["text"].as_str().unwrap().to_owned())
        .collect();
    let sizes: Vec<u64> = said.split_whitespace().map(|size| size.parse().unwrap()).collect();
    assert_eq!(sizes.len(), 3, "{said}");
    assert!(sizes.iter().all(|size| (1..=1 << 30).contains(size)), "{sizes:?}");
    still_well(&omoi).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_files_are_no_trouble() {
    let (omoi, ran) = attack(
        "mkdir target; python3 -c \"\nfor n in range(100000):\n    try: open('target/%d' % n, 'w').close()\n    except OSError as e: print(e); break\nprint('made')\"",
    )
    .await;
    assert!(ran.stdout.contains("made"), "{ran:?}");
    Traces::assert_none(&omoi.data(), &[ran.id.to_string()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gigabyte_of_output_is_bounded_everywhere() {
    let omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let ran = omoi.sh(&project, "head -c 1000000000 /dev/zero | tr '\\0' 'x'; echo").await;
    assert_eq!(ran.code, Some(0));
    assert!(ran.stdout.len() < 8 << 20, "{} bytes of events", ran.stdout.len());
    still_well(&omoi).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_does_not_outlive_its_sandbox() {
    let (omoi, ran) =
        attack("(setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done' &) ; exit 0").await;
    ran.ok();
    Traces::assert_none(&omoi.data(), &[ran.id.to_string()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_no_way_around_the_proxy() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        r#"
import socket
def attempt(name, family, kind, address):
    s = socket.socket(family, kind); s.settimeout(2)
    try:
        s.connect(address)
        if kind == socket.SOCK_DGRAM: s.send(b"x"); s.recv(1)
        print(name, "REACHED")
    except OSError: print(name, "refused")
attempt("host loopback", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", {port}))
attempt("metadata", socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80))
attempt("outside", socket.AF_INET, socket.SOCK_STREAM, ("1.1.1.1", 443))
attempt("dns", socket.AF_INET, socket.SOCK_DGRAM, ("1.1.1.1", 53))
attempt("udp", socket.AF_INET, socket.SOCK_DGRAM, ("8.8.8.8", 123))
try: socket.getaddrinfo("example.com", 80); print("name RESOLVED")
except OSError: print("name refused")
"#
    );
    let omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let ran = omoi.run(&project, &["/usr/bin/python3", "-c", &script]).await;
    assert_eq!(ran.ok().lines().filter(|line| line.ends_with("refused")).count(), 6, "{}", ran.stdout);
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody came");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_proxy_refuses_what_is_not_listed_and_everything_near() {
    let omoi = Omoi::start(As::Root).await;
    let settings =
        json!({ "egress_allow": ["allowed.invalid", "127.0.0.1", "169.254.169.254", "localhost"] });
    let project = omoi.small_project_with(settings).await;
    let script = r#"
import os, urllib.request, urllib.error
for name in ["no_proxy", "NO_PROXY"]: os.environ.pop(name)
proxy = urllib.request.ProxyHandler({"http": os.environ["HTTP_PROXY"]})
opener = urllib.request.build_opener(proxy)
for url in ["http://127.0.0.1/", "http://localhost/", "http://169.254.169.254/latest/meta-data", "http://[::1]/", "http://2130706433/", "http://0x7f.1/", "http://example.com/"]:
    try: opener.open(url, timeout=10); print(url, "PASSED")
    except urllib.error.HTTPError as e: print(url, e.code)
    except OSError as e: print(url, e)
"#;
    let ran = omoi.run(&project, &["/usr/bin/python3", "-c", script]).await;
    let said = ran.ok();
    assert!(!said.contains("PASSED"), "{said}");
    assert_eq!(said.lines().filter(|line| line.ends_with(" 403")).count(), 7, "{said}");
    let log = omoi.get(&format!("/api/v1/sandboxes/{}/egress", ran.id)).await;
    assert!(log.to_string().contains("169.254.169.254"), "what was tried is written down: {log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_s_token_opens_its_own_sandbox_alone() {
    let omoi = Omoi::start(As::Root).await;
    let (mine, yours) = (Repository::small(), Repository::small());
    let (project, others) = (omoi.project(&mine).await, omoi.project(&yours).await);
    let script = "echo $OMOI_TOKEN > token.txt; touch there; exec sleep 1000";
    let other = omoi.order(&project, &["/bin/sh", "-c", script]).await;
    omoi.until_file(&other, "there").await;
    let stolen = std::fs::read_to_string(omoi.workspace(&other).join("token.txt")).unwrap();
    // A token in a command would be masked; backwards it is none.
    let stolen: String = stolen.trim().chars().rev().collect();
    let script = format!(
        r#"
import os, json, urllib.request, urllib.error
door = os.environ["CALLBACK_URL"]; own = os.environ["OMOI_TOKEN"]; me = os.environ["SANDBOX_ID"]
def ask(name, path, token, body=None):
    request = urllib.request.Request(door + path, data=body and json.dumps(body).encode(), headers={{"Authorization": "Bearer " + token, "Content-Type": "application/json"}})
    try: print(name, urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(request, timeout=10).status)
    except urllib.error.HTTPError as e: print(name, e.code)
ask("own", "/api/v1/sandboxes/" + me, own)
ask("other", "/api/v1/sandboxes/{other}", own)
ask("other's events", "/api/v1/sandboxes/{other}/events", own, {{"event_type": "agent.completed", "event_data": {{}}}})
ask("stolen", "/api/v1/sandboxes/{other}", {stolen:?}[::-1])
ask("list", "/api/v1/sandboxes", own)
ask("tokens", "/api/v1/tokens", own, {{"name": "mine", "role": "admin"}})
ask("other project", "/git/{others}.git/info/refs?service=git-upload-pack", own)
ask("wrong", "/api/v1/sandboxes/" + me, "omoi_sbx_wrong")
"#
    );
    let ran = omoi.run(&project, &["/usr/bin/python3", "-c", &script]).await;
    let said = ran.ok();
    assert!(said.contains("own 200"), "{said}");
    for refused in [
        "other 403",
        "other's events 403",
        "stolen 403",
        "list 403",
        "tokens 403",
        "other project 40",
        "wrong 401",
    ] {
        assert!(said.contains(refused), "{refused}? {said}");
    }
    omoi.terminate(&other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_go_to_the_own_branch_alone() {
    let omoi = Omoi::start_with(As::Root, &[("OMOI_GIT_PUSH_BYTES_MAX", "1MiB")]).await;
    let project = omoi.small_project().await;
    let script = "echo a > a; git add a; git commit -qm a; \
                  git push -q origin HEAD:main 2>/dev/null && echo MAIN; git push -q origin HEAD:refs/heads/other 2>/dev/null && echo OTHER; \
                  git push -q origin HEAD:refs/tags/t 2>/dev/null && echo TAG; git push -q origin :main 2>/dev/null && echo DELETED; \
                  git push -q origin HEAD:refs/preserved/other 2>/dev/null && echo PRESERVED; \
                  git push -q origin HEAD:$BRANCH_NAME && echo own; \
                  head -c 3000000 /dev/urandom > big; git add big; git commit -qm big; git push -q origin HEAD:$BRANCH_NAME 2>/dev/null && echo BIG; \
                  git reset -q --hard HEAD~1; echo end";
    let ran = omoi.sh(&project, script).await;
    assert_eq!(ran.ok(), "own\nend", "{ran:?}");
    let mirror = Mirror::of(&omoi.data(), &project);
    assert_eq!(mirror.git(&["log", "-1", "--format=%s", "main"]), "Begin");
    let events = omoi.get(&format!("/api/v1/sandboxes/{}/events?event_type=git.push&limit=50", ran.id)).await;
    let refused =
        events["events"].as_array().unwrap().iter().filter(|event| event["event_data"]["accepted"] == false);
    assert!(refused.count() >= 5, "{events}");
}

/// A repository of a project may say what it likes: nothing of it runs on the host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_project_runs_nothing_on_the_host() {
    let omoi = Omoi::start(As::Root).await;
    let repository = Repository::small();
    let ran = omoi.path().join("ran");
    repository.write(".gitattributes", "* filter=evil diff=evil merge=evil\n");
    repository.write(
        ".gitmodules",
        format!("[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c touch% {}\n", ran.display()),
    );
    repository.write("config", format!("[core]\n\tfsmonitor = touch {}\n", ran.display()));
    std::os::unix::fs::symlink("/etc", repository.path().join("etc")).unwrap();
    std::os::unix::fs::symlink("../../../../../../root", repository.path().join("up")).unwrap();
    repository.commit("Hostile");
    repository.git(&["config", "filter.evil.smudge", &format!("touch {}", ran.display())]);
    repository.git(&["config", "core.fsmonitor", &format!("touch {}", ran.display())]);
    repository.git(&["config", "uploadpack.packObjectsHook", &format!("touch {}", ran.display())]);
    let project = omoi.project(&repository).await;
    let said = omoi.sh(&project, "ls -l etc up; cat etc/hostname 2>&1; git status --short").await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(!ran.exists(), "something of the repository ran on the host");
}

/// By a switch, and by being an ordinary user for whom no administrator has accepted less.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layer_that_is_taken_away_is_named_and_nothing_starts() {
    let cases = [
        (As::Root, "OMOI_SANDBOX_DENY_LAYERS", "seccomp", "seccomp"),
        (As::Root, "OMOI_SANDBOX_DENY_LAYERS", "memory_limit", "memory_limit"),
        (As::Root, "OMOI_SANDBOX_DENY_LAYERS", "network_namespace", "network_namespace"),
        (As::Root, "OMOI_SANDBOX_DENY_LAYERS", "user_namespace", "user_namespace"),
        (As::User, "OMOI_SANDBOX_ALLOW_SHARED_ID", "false", "id_ranges"),
        (As::User, "OMOI_SANDBOX_ALLOW_SOFT_LIMITS", "false", "limit"),
    ];
    for (who, key, value, layer) in cases {
        let omoi = Omoi::start_with(who, &[(key, value)]).await;
        let project = omoi.small_project().await;
        let id = omoi.order(&project, &["true"]).await;
        let failed: Value = omoi.until_event(&id, "SANDBOX_FAILED").await;
        let error = failed["payload"]["error"].as_str().unwrap();
        assert!(error.contains(layer), "{layer}: {error}");
        omoi.gone(&id).await;
        assert_eq!(
            omoi.get(&format!("/api/v1/sandboxes/{id}/events")).await["total_count"],
            0,
            "no worker ever ran"
        );
    }
}
