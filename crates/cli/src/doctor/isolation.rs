//! The layers of isolation that the kernel offers to sandboxes on this machine, as far as it tells.

use std::{fs, path::Path};

use super::Check;

const AREA: &str = "isolation";
const CONTROLLERS: &[&str] = &["cpu", "memory", "pids"];

/// `root` is `/`, but in tests.
pub fn checks(root: &Path) -> Vec<Check> {
    let kernel = Kernel { root };
    vec![kernel.user_namespaces(), kernel.cgroups(), kernel.overlay(), kernel.seccomp(), kernel.landlock()]
}

struct Kernel<'a> {
    root: &'a Path,
}

impl Kernel<'_> {
    fn read(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.root.join(path)).ok()?.trim().to_owned())
    }

    fn user_namespaces(&self) -> Check {
        let name = "user namespaces";
        let max = self.read("proc/sys/user/max_user_namespaces");
        let clone = self.read("proc/sys/kernel/unprivileged_userns_clone");
        let apparmor = self.read("proc/sys/kernel/apparmor_restrict_unprivileged_userns");
        match (max.as_deref(), clone.as_deref(), apparmor.as_deref()) {
            (None, ..) => {
                let fix = "use a kernel built with CONFIG_USER_NS";
                Check::missing(AREA, name, "the kernel has none", fix)
            }
            (Some("0"), ..) => {
                let fix = "sysctl user.max_user_namespaces=15000";
                Check::missing(AREA, name, "user.max_user_namespaces is 0", fix)
            }
            (_, Some("0"), _) => {
                let fix = "sysctl kernel.unprivileged_userns_clone=1";
                Check::missing(AREA, name, "only root may make them", fix)
            }
            (_, _, Some("1")) => {
                let fix = "give omoi an AppArmor profile that allows userns, or sysctl \
                           kernel.apparmor_restrict_unprivileged_userns=0";
                Check::warn(AREA, name, "AppArmor takes away what they allow", fix)
            }
            (Some(max), ..) => Check::ok(AREA, name, format!("allowed, up to {max}")),
        }
    }

    fn cgroups(&self) -> Check {
        let name = "cgroups";
        let Some(found) = self.read("sys/fs/cgroup/cgroup.controllers") else {
            let fix = "mount cgroup v2 at /sys/fs/cgroup (systemd.unified_cgroup_hierarchy=1)";
            return Check::missing(AREA, name, "version 2 is not mounted", fix);
        };
        let found: Vec<_> = found.split_whitespace().collect();
        let absent: Vec<_> = CONTROLLERS.iter().filter(|name| !found.contains(name)).copied().collect();
        if absent.is_empty() {
            return Check::ok(AREA, name, format!("version 2 with {}", CONTROLLERS.join(", ")));
        }
        let fix = "delegate these controllers to this user or container";
        Check::warn(AREA, name, format!("version 2 without {}: no limits on it", absent.join(", ")), fix)
    }

    fn overlay(&self) -> Check {
        let name = "overlayfs";
        let known = self.read("proc/filesystems").unwrap_or_default();
        if known.lines().any(|line| line.split_whitespace().last() == Some("overlay")) {
            Check::ok(AREA, name, "known to the kernel")
        } else {
            Check::missing(AREA, name, "not known to the kernel", "modprobe overlay")
        }
    }

    fn seccomp(&self) -> Check {
        let name = "seccomp";
        let status = self.read("proc/self/status").unwrap_or_default();
        if status.lines().any(|line| line.starts_with("Seccomp:")) {
            Check::ok(AREA, name, "system calls can be filtered")
        } else {
            let fix = "use a kernel built with CONFIG_SECCOMP_FILTER";
            Check::missing(AREA, name, "the kernel cannot filter system calls", fix)
        }
    }

    fn landlock(&self) -> Check {
        let name = "Landlock";
        match self.read("sys/kernel/security/lsm") {
            Some(list) if list.split(',').any(|lsm| lsm == "landlock") => Check::ok(AREA, name, "enabled"),
            Some(list) => {
                let fix = "add landlock to the lsm= list of the kernel's command line";
                Check::missing(AREA, name, format!("not among the enabled {list}"), fix)
            }
            None => {
                let fix = "mount securityfs at /sys/kernel/security to find out";
                Check::warn(AREA, name, "no telling: the list cannot be read", fix)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level::{self, Missing, Ok, Warn};

    const WELL: &[(&str, &str)] = &[
        ("proc/sys/user/max_user_namespaces", "15000\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n"),
        ("proc/filesystems", "nodev\tsysfs\nnodev\toverlay\n\text4\n"),
        ("proc/self/status", "Name:\tomoi\nSeccomp:\t0\n"),
        ("sys/kernel/security/lsm", "capability,landlock,yama\n"),
    ];

    /// A machine on which these files say this.
    fn levels(files: &[(&str, &str)]) -> Vec<Level> {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        checks(dir.path()).iter().map(|check| check.level).collect()
    }

    #[test]
    fn layers_are_found_or_named() {
        assert_eq!(levels(WELL), [Ok; 5]);
        assert_eq!(levels(&[]), [Missing, Missing, Missing, Missing, Warn]);
        let changed = |path: &str, text: &str| levels(&[WELL, &[(path, text)]].concat());
        for (path, text, at, level) in [
            ("proc/sys/user/max_user_namespaces", "0\n", 0, Missing),
            ("proc/sys/kernel/unprivileged_userns_clone", "0\n", 0, Missing),
            ("proc/sys/kernel/unprivileged_userns_clone", "1\n", 0, Ok),
            ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", 0, Warn),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n", 1, Warn),
            ("proc/filesystems", "nodev\toverlayfoo\n", 2, Missing),
            ("sys/kernel/security/lsm", "capability,yama\n", 4, Missing),
        ] {
            let mut expected = [Ok; 5];
            expected[at] = level;
            assert_eq!(changed(path, text), expected, "{path}: {text}");
        }
    }
}
