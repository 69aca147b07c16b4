//! What this machine can do, found out by doing it.

use std::io;
use std::path::Path;

use omoi_launcher::{Layer, Refusal, Report};

use crate::refuse::refusal;
use crate::sys;

const NAMESPACES: [(Layer, u64); 4] = [
    (Layer::UserNamespace, 0),
    (Layer::MountNamespace, sys::NEW_MOUNT),
    (Layer::PidNamespace, sys::NEW_PID),
    (Layer::NetworkNamespace, sys::NEW_NET),
];

pub fn probe(_cache: &Path) -> Vec<Report> {
    Vec::new()
}

/// Which of the namespaces it was that could not be made.
pub fn diagnose(error: &io::Error) -> Refusal {
    for (layer, flag) in NAMESPACES {
        match sys::clone_into(sys::NEW_USER | flag, None) {
            Ok(None) => sys::exit_now(0),
            Ok(Some(child)) => {
                let _ = rustix::process::waitid(
                    rustix::process::WaitId::PidFd(std::os::fd::AsFd::as_fd(&child.pidfd)),
                    rustix::process::WaitIdOptions::EXITED,
                );
            }
            Err(error) => return refusal(layer, format_args!("cannot be made: {error}"), fix(layer)),
        }
    }
    refusal(Layer::PidNamespace, format_args!("cannot start the init: {error}"), fix(Layer::PidNamespace))
}

fn fix(layer: Layer) -> &'static str {
    match layer {
        Layer::UserNamespace => {
            "allow user namespaces: sysctl user.max_user_namespaces and kernel.unprivileged_userns_clone; on Ubuntu an AppArmor \
             profile with `userns,` for this program; in a container a seccomp profile that allows clone3 and unshare"
        }
        _ => "see the limits below /proc/sys/user, and in a container its seccomp profile",
    }
}
