//! The few calls that neither the standard library nor rustix has. All unsafe code of the launcher is here.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::fs::CWD;

/// A process that was made with namespaces of its own.
#[derive(Debug)]
pub struct Child {
    pub pid: i32,
    pub pidfd: OwnedFd,
}

pub const NEW_USER: u64 = libc::CLONE_NEWUSER as u64;
pub const NEW_PID: u64 = libc::CLONE_NEWPID as u64;
pub const NEW_MOUNT: u64 = libc::CLONE_NEWNS as u64;
pub const NEW_NET: u64 = libc::CLONE_NEWNET as u64;
const NEW_IPC: u64 = libc::CLONE_NEWIPC as u64;
const NEW_UTS: u64 = libc::CLONE_NEWUTS as u64;
/// All that a sandbox has of its own. Control groups come later, when a command has joined them.
pub const NAMESPACES: u64 = NEW_USER | NEW_PID | NEW_MOUNT | NEW_NET | NEW_IPC | NEW_UTS;
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// Forks into new namespaces, and into a control group of version 2 if one is given. `None` is the child.
pub fn clone_into(flags: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Option<Child>> {
    let mut pidfd: RawFd = -1;
    // SAFETY: clone_args is a plain structure for which zero means "not given".
    let mut arguments: libc::clone_args = unsafe { zeroed() };
    arguments.flags = flags | libc::CLONE_PIDFD as u64;
    arguments.pidfd = ptr::from_mut(&mut pidfd) as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        arguments.flags |= INTO_CGROUP;
        arguments.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: without a stack and without CLONE_VM this is a fork; the launcher has one thread, so the child's copy of the
    // heap is whole.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &arguments, size_of::<libc::clone_args>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        // SAFETY: the kernel has just stored a descriptor that nobody else owns.
        pid => Ok(Some(Child { pid: pid as i32, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } })),
    }
}

/// Forks. `None` is the child.
pub fn fork() -> io::Result<Option<i32>> {
    // SAFETY: the launcher and the init have one thread, so the child may allocate.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some(pid)),
    }
}

/// Ends this process at once, as a forked child must: it runs none of its parent's destructors.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: does not return and touches no memory.
    unsafe { libc::_exit(code) }
}

/// Sets attributes of a mount, and the user namespace whose map it applies if one is given.
pub fn mount_setattr(
    mount: BorrowedFd<'_>,
    set: u64,
    idmap: Option<BorrowedFd<'_>>,
    recursive: bool,
) -> io::Result<()> {
    let mut attributes = libc::mount_attr { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    if let Some(namespace) = idmap {
        attributes.attr_set |= libc::MOUNT_ATTR_IDMAP;
        attributes.userns_fd = namespace.as_raw_fd() as u64;
    }
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is empty and terminated, the structure outlives the call and its size is given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Replaces this process; returns only if that failed.
pub fn execve(program: &CStr, argv: &[&CStr], env: &[&CStr]) -> io::Error {
    let pointers = |strings: &[&CStr]| -> Vec<*const libc::c_char> {
        strings.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both lists end with a null pointer, and their strings live until the call returns.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Blocks the signals and returns a descriptor from which they are read.
pub fn signals(blocked: &[i32]) -> io::Result<OwnedFd> {
    // SAFETY: sigset_t is plain memory that sigemptyset initialises; the descriptor is new and ours.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&mut set);
        for signal in blocked {
            libc::sigaddset(&mut set, *signal);
        }
        if libc::sigprocmask(libc::SIG_SETMASK, &set, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// A signal that has arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrived {
    pub signal: i32,
    /// The sender is of another pid namespace: an init's senders are then outside of its sandbox.
    pub from_outside: bool,
}

/// The signal that a descriptor of [`signals`] holds, if any.
pub fn next_signal(signals: BorrowedFd<'_>) -> Option<Arrived> {
    // SAFETY: the buffer is as large as the structure that the kernel writes, which is plain data.
    unsafe {
        let mut info: libc::signalfd_siginfo = zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        let got = libc::read(signals.as_raw_fd(), ptr::from_mut(&mut info).cast(), size);
        (got == size as isize)
            .then_some(Arrived { signal: info.ssi_signo as i32, from_outside: info.ssi_pid == 0 })
    }
}

/// Gives every signal back its default, as a program expects that was not started by us.
pub fn default_signals() {
    // SAFETY: SIG_DFL installs no code of ours, and the set is initialised before it is used.
    unsafe {
        for signal in [libc::SIGPIPE, libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
    }
}

/// Makes a terminal on standard input the controlling one. Most commands have none.
pub fn take_terminal() {
    // SAFETY: takes a number, returns a number.
    unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) };
}

/// Closes what the caller left open, or, in a child, marks it to be closed by exec.
pub fn close_from(first: u32, at_exec: bool) -> io::Result<()> {
    let flags = if at_exec { libc::CLOSE_RANGE_CLOEXEC } else { 0 };
    // SAFETY: called where nothing owns a descriptor at or above `first`, or where they only close at exec.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Brings up `lo` in this process's network namespace.
pub fn loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: ifreq is plain data; the name fits and is terminated by the zeroes around it.
    unsafe {
        let mut request: libc::ifreq = zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        match libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The version of Landlock that the kernel speaks; 0 is none.
pub fn landlock_version() -> i64 {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the kernel reads no structure and returns a number.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<u8>(), 0usize, VERSION) };
    version.max(0)
}

/// Whether the kernel can filter system calls and answer them with an error.
pub fn seccomp_available() -> bool {
    const GET_ACTION_AVAIL: u32 = 2;
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads one number at the address.
    unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAIL, 0, &action) == 0 }
}

#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    names: [u8; 64 + 64 + 32],
    init: [u64; 2],
}

#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const LOOP_CONFIGURE: u64 = 0x4C0A;
const LOOP_CTL_GET_FREE: u64 = 0x4C82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// The number of a loop device that nobody uses yet. Somebody may be faster to configure it.
pub fn loop_free(control: &File) -> io::Result<i32> {
    // SAFETY: takes nothing, returns a number.
    match unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) } {
        -1 => Err(io::Error::last_os_error()),
        number => Ok(number),
    }
}

/// Puts a file behind a loop device, which forgets it when its last user has gone.
pub fn loop_configure(device: &File, backing: &File) -> io::Result<()> {
    // SAFETY: plain data for which zero means "not given"; the kernel reads as much as the structure holds.
    unsafe {
        let mut config: LoopConfig = zeroed();
        config.fd = backing.as_raw_fd() as u32;
        config.info.flags = LO_FLAGS_AUTOCLEAR;
        match libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &config) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Opens a path as another process of ours sees it in `/proc`.
pub fn open_namespace(pid: i32, name: &str) -> io::Result<OwnedFd> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, format!("/proc/{pid}/ns/{name}"), flags, rustix::fs::Mode::empty())?)
}

/// Kills every process of this pid namespace but its init, which is the caller.
pub fn kill_all() {
    // SAFETY: takes numbers, returns a number.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Makes the control groups that this process is in look like the roots of their hierarchies.
pub fn hide_cgroups() -> io::Result<()> {
    // SAFETY: a namespace of control groups touches no descriptors and no memory.
    Ok(unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWCGROUP) }?)
}
