//! The filter on system calls. It allows what programs use and refuses what reaches for the kernel itself: mounts, namespaces,
//! tracing, keys, io_uring, and sockets of families that nobody needs.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, apply_filter, sock_filter,
};

/// Newer than the table of numbers that we have; the same on every architecture.
const OPEN_TREE_ATTR: i64 = 467;

/// Answered with EPERM, whatever the arguments.
const DENIED: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
];

#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[i64] =
    &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_uselib, libc::SYS__sysctl];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[i64] = &[];

const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Filters the calling process and whatever it becomes. It cannot be undone, and needs `no_new_privs`.
pub fn apply() -> Result<(), Box<dyn std::error::Error>> {
    apply_filter(&foreign())?;
    // With this answer the C library makes processes the old way, whose flags can be looked at.
    apply_filter(&filter(BTreeMap::from([(libc::SYS_clone3, vec![])]), libc::ENOSYS)?)?;
    apply_filter(&filter(denials()?, libc::EPERM)?)?;
    Ok(())
}

fn denials() -> seccompiler::Result<BTreeMap<i64, Vec<Rule>>> {
    let mut rules: BTreeMap<i64, Vec<Rule>> =
        DENIED.iter().chain(DENIED_HERE).map(|call| (*call, vec![])).collect();
    let dword =
        |argument: u8, op: Op, value: i32| Condition::new(argument, Len::Dword, op, u64::from(value as u32));
    let clone = NAMESPACES.iter().map(|flag| {
        let op = Op::MaskedEq(u64::from(*flag as u32));
        Ok(Rule::new(vec![Condition::new(0, Len::Qword, op, u64::from(*flag as u32))?])?)
    });
    rules.insert(libc::SYS_clone, clone.collect::<seccompiler::Result<_>>()?);

    let others =
        FAMILIES.iter().map(|family| Ok(dword(0, Op::Ne, *family)?)).collect::<seccompiler::Result<_>>()?;
    let netlink = vec![dword(0, Op::Eq, libc::AF_NETLINK)?, dword(2, Op::Ne, libc::NETLINK_ROUTE)?];
    rules.insert(libc::SYS_socket, vec![Rule::new(others)?, Rule::new(netlink)?]);

    // Both put words into a terminal as if a person had typed them.
    let terminal = |request: u64| Ok(Rule::new(vec![dword(1, Op::Eq, request as i32)?])?);
    let requests = [libc::TIOCSTI, libc::TIOCLINUX];
    rules.insert(libc::SYS_ioctl, requests.into_iter().map(terminal).collect::<seccompiler::Result<_>>()?);
    Ok(rules)
}

/// Kills what calls in another architecture's way, and answers the rules with an error.
fn filter(rules: BTreeMap<i64, Vec<Rule>>, errno: i32) -> seccompiler::Result<BpfProgram> {
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno as u32), arch)?;
    Ok(BpfProgram::try_from(filter)?)
}

/// Refuses the x32 calls, which are the ordinary architecture's with one bit set and would pass every other rule.
fn foreign() -> BpfProgram {
    const LOAD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32_BIT: u32 = 0x4000_0000;
    vec![
        sock_filter { code: LOAD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: X32_BIT },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ]
}
