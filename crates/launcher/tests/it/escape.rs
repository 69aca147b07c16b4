//! Ways out that must be shut.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use omoi_launcher::{Bind, How};

use crate::needs;
use crate::sandbox::{Place, has_python, is_root};

#[test]
fn nothing_outside_its_places_can_be_written() {
    needs!(is_root(), "root");
    let place = Place::new();
    let sandbox = place.start(&place.plan());
    let said = sandbox.sh(
        "for path in /x /usr/x /etc/x /opt/x /var/lib/x /root/x /run/x /dev/x /home/x /proc/x /omoi; do \
           (echo x > $path) 2>/dev/null && echo wrote $path; done; \
         (echo 1 > /proc/sys/kernel/panic) 2>/dev/null && echo wrote sys; \
         (echo core > /proc/sys/kernel/core_pattern) 2>/dev/null && echo wrote core; \
         (echo b > /proc/sysrq-trigger) 2>/dev/null && echo wrote sysrq; \
         chmod 777 /etc 2>/dev/null && echo changed /etc; rm /etc/passwd 2>/dev/null && echo removed; \
         for path in /workspace/x /home/agent/x /tmp/x /dev/shm/x /var/tmp/x /run/omoi/x; do echo x > $path || echo missed $path; done",
    );
    assert_eq!(said.text.replace("/bin/sh: ", ""), "", "{}", said.text);
    assert_eq!(fs::read_to_string(place.path().join("checkout/README")).unwrap(), "of the checkout\n");
    assert!(!place.path().join("checkout/x").exists());
}

#[test]
fn a_set_uid_program_gives_no_privileges() {
    needs!(is_root(), "root");
    let place = Place::new();
    let tools = place.path().join("tools");
    fs::create_dir(&tools).unwrap();
    fs::copy("/usr/bin/id", tools.join("id")).unwrap();
    fs::set_permissions(tools.join("id"), Permissions::from_mode(0o4755)).unwrap();
    let mut plan = place.plan();
    plan.binds.push(Bind { from: tools, to: "/omoi/tools".into() });
    let sandbox = place.start(&plan);
    assert_eq!(sandbox.ok("stat -c %a:%u /omoi/tools/id; /omoi/tools/id -u"), "4755:0\n1000\n");
    sandbox.ok("cp /usr/bin/id /workspace/id && chmod 6755 /workspace/id && test $(/workspace/id -u) = 1000");
    let caps = sandbox.ok("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status");
    for line in caps.lines().filter(|line| line.starts_with("Cap")) {
        assert!(line.ends_with("0000000000000000"), "{line}");
    }
    assert!(caps.contains("NoNewPrivs:\t1") && caps.contains("Seccomp:\t2"), "{caps}");
}

/// Each line calls the kernel and prints the name of the error.
const CALLS: &str = r#"
import ctypes, errno, os, socket, fcntl
libc = ctypes.CDLL(None, use_errno=True)
def call(name, number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(number, *arguments)
    print(name, errno.errorcode.get(ctypes.get_errno(), "worked") if result == -1 else "worked")
def attempt(name, work):
    try:
        work(); print(name, "worked")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
buffer = ctypes.create_string_buffer(256)
call("mount", 165, b"none", b"/tmp", b"tmpfs", 0, None)
call("umount2", 166, b"/tmp", 2)
call("fsopen", 430, b"tmpfs", 0)
call("open_tree", 428, -100, b"/", 1)
call("unshare_user", 272, 0x10000000)
call("unshare_net", 272, 0x40000000)
call("clone_user", 56, 0x10000000 | 17, 0, 0, 0, 0)
call("setns", 308, 0, 0)
call("clone3", 435, buffer, 88)
call("ptrace", 101, 16, os.getppid(), 0, 0)
call("process_vm_readv", 310, os.getppid(), buffer, 1, buffer, 1, 0)
call("keyctl", 250, 0, -3, 0)
call("add_key", 248, b"user", b"x", b"y", 1, -3)
call("io_uring", 425, 4, buffer)
call("bpf", 321, 0, buffer, 120)
call("perf", 298, buffer, 0, -1, -1, 0)
call("userfaultfd", 323, 0)
call("open_by_handle_at", 304, -100, buffer, 0)
call("kexec", 246, 0, 0, 0, 0)
call("init_module", 175, buffer, 0, b"")
call("reboot", 169, 0xfee1dead, 672274793, 0, 0)
call("syslog", 103, 3, buffer, 256)
call("pidfd_getfd", 438, 3, 0, 0)
call("x32_getpid", 0x40000000 + 39)
attempt("chroot", lambda: os.chroot("/tmp"))
attempt("mknod", lambda: os.mknod("/workspace/device", 0o20666, os.makedev(1, 3)))
attempt("mknod_block", lambda: os.mknod("/tmp/device", 0o60666, os.makedev(8, 0)))
attempt("packet", lambda: socket.socket(17, socket.SOCK_RAW, 0))
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM, 0))
attempt("alg", lambda: socket.socket(38, socket.SOCK_SEQPACKET, 0))
attempt("netlink_audit", lambda: socket.socket(16, socket.SOCK_RAW, 9))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("tiocsti", lambda: fcntl.ioctl(0, 0x5412, b"x"))
attempt("netlink_route", lambda: socket.socket(16, socket.SOCK_RAW, 0))
attempt("unix", lambda: socket.socket(socket.AF_UNIX))
attempt("setuid", lambda: os.setuid(0))
attempt("kill_init", lambda: os.kill(1, 9))
"#;

#[test]
fn calls_that_reach_for_the_kernel_are_refused() {
    needs!(is_root() && cfg!(target_arch = "x86_64"), "root on x86-64");
    needs!(has_python(), "/usr/bin/python3");
    let place = Place::new();
    let sandbox = place.start(&place.plan());
    let said = sandbox.python(CALLS);
    assert_eq!(said.exit.how, How::Code(0), "{}", said.text);
    for line in said.text.lines() {
        let (name, result) = line.split_once(' ').unwrap();
        let expected = match name {
            "clone3" | "x32_getpid" => "ENOSYS",
            "netlink_route" | "unix" => "worked",
            _ => "EPERM",
        };
        assert_eq!(result, expected, "{name}");
    }
    assert_eq!(said.text.lines().count(), 37, "{}", said.text);
    assert!(sandbox.directory().alive().unwrap());
}

#[test]
fn calls_in_another_architecture_s_way_are_killed() {
    needs!(is_root() && cfg!(target_arch = "x86_64"), "root on x86-64");
    needs!(has_python(), "/usr/bin/python3");
    let place = Place::new();
    let sandbox = place.start(&place.plan());
    // mov eax, 20 (getpid of i386); int 0x80; ret
    let said = sandbox.python(
        "import ctypes, mmap\n\
         code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n\
         code.write(bytes.fromhex('b814000000cd80c3'))\n\
         ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()\n\
         print('survived')",
    );
    assert_eq!(said.exit.how, How::Signal(libc_sigsys()), "{}", said.text);
}

fn libc_sigsys() -> i32 {
    rustix::process::Signal::SYS.as_raw()
}

#[test]
fn root_inside_can_own_files_and_nothing_more() {
    needs!(is_root(), "root");
    let place = Place::new();
    let mut plan = place.plan();
    (plan.root_inside, plan.uid, plan.gid) = (true, 0, 0);
    let sandbox = place.start(&plan);
    sandbox.ok(
        "touch /usr/local/made /etc/made && chown 33:33 /etc/made && test \"$(stat -c %u /etc/made)\" = 33",
    );
    sandbox.ok("rm /usr/bin/env && test ! -e /usr/bin/env");
    let said = sandbox.sh(
        "mount -t tmpfs none /mnt 2>/dev/null && echo mounted; mknod /tmp/d c 1 3 2>/dev/null && echo made; \
         kill -9 1; kill -15 1; cat /proc/1/environ 2>/dev/null && echo read; \
         (echo 1 > /proc/sys/kernel/panic) 2>/dev/null && echo wrote; grep CapEff /proc/self/status",
    );
    assert_eq!(said.text, "CapEff:\t00000000000004fb\n");
    assert!(fs::metadata("/usr/bin/env").is_ok() && fs::metadata("/usr/local/made").is_err());
    assert!(sandbox.control().status().unwrap().is_none(), "a signal from inside reached the init");
}
