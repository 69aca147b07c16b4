//! What a command may do, taken away just before it starts and never given back: identity, capabilities, new privileges,
//! writing outside of its places, dangerous system calls.

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _,
};
use omoi_launcher::{Layer, Plan};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, Uid, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use crate::host::ids::Mode;
use crate::inside::seccomp;
use crate::refuse::{OrRefuse as _, Result};
use crate::sys;

/// What package managers need of root, inside the user namespace.
const ROOT_INSIDE: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// The highest capability that any kernel has is below this.
const CAPABILITIES: u32 = 64;

/// The rules that every command of a sandbox starts under.
#[derive(Debug, Clone)]
pub struct Rules {
    pub mode: Mode,
    pub root_inside: bool,
    pub soft: Option<Soft>,
    pub landlock: bool,
    /// Where a command may write, for Landlock.
    pub writable: Vec<std::path::PathBuf>,
}

/// Limits for each process where the sandbox as a whole has none.
#[derive(Debug, Clone, Copy)]
pub struct Soft {
    pub memory_bytes: u64,
    pub pids: u64,
}

impl Rules {
    pub fn new(plan: &Plan, mode: Mode, soft: bool) -> Self {
        let places = ["/home/agent", "/tmp", "/var/tmp", "/run/omoi", "/dev", "/proc"];
        let workspace = plan.workspace.iter().map(|it| it.at.clone());
        Self {
            mode,
            root_inside: plan.root_inside,
            soft: soft
                .then_some(Soft { memory_bytes: plan.limits.memory_bytes, pids: plan.limits.pids.into() }),
            landlock: sys::landlock_version() > 0 && !plan.deny.contains(&Layer::Landlock),
            writable: places.into_iter().map(Into::into).chain(workspace).collect(),
        }
    }

    /// Applies all but Landlock to the calling process.
    pub fn apply(&self, uid: u32, gid: u32) -> Result<()> {
        self.limit()?;
        self.identity(uid, gid)?;
        set_no_new_privs(true).or_refuse(
            Layer::NoNewPrivs,
            "give up new privileges",
            "use Linux 3.5 or newer",
        )?;
        seccomp::apply().or_refuse(
            Layer::Seccomp,
            "filter system calls",
            "use a kernel with CONFIG_SECCOMP_FILTER",
        )
    }

    /// Restricts the init and so all its commands, in one domain: commands of different domains could not see each other.
    pub fn apply_landlock(&self) -> Result<()> {
        match self.landlock && !self.root_inside {
            true => self.landlock().or_broken(Layer::Landlock, "restrict writing"),
            false => Ok(()),
        }
    }

    fn limit(&self) -> Result<()> {
        let set =
            |resource, value: u64| setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) });
        // One byte and not none: with none the kernel still calls the host's handler of core dumps, if that is a program.
        set(Resource::Core, 1).or_broken(Layer::Capabilities, "forbid core dumps")?;
        if let Some(soft) = self.soft {
            set(Resource::As, soft.memory_bytes).or_broken(Layer::MemoryLimit, "limit memory")?;
            set(Resource::Nproc, soft.pids).or_broken(Layer::PidsLimit, "limit processes")?;
        }
        Ok(())
    }

    fn identity(&self, uid: u32, gid: u32) -> Result<()> {
        let keep = if self.root_inside { ROOT_INSIDE } else { CapabilitySet::empty() };
        for bit in 0..CAPABILITIES {
            let one = CapabilitySet::from_bits_retain(1 << bit);
            // A kernel refuses the numbers that it does not know.
            if !keep.contains(one) && remove_capability_from_bounding_set(one).is_err() && bit == 0 {
                return Err(std::io::Error::last_os_error())
                    .or_broken(Layer::Capabilities, "drop capabilities");
            }
        }
        if self.mode != Mode::Shared {
            set_thread_groups(&[]).or_broken(Layer::Capabilities, "leave all groups")?;
        }
        let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
        set_thread_res_gid(group, group, group)
            .or_broken(Layer::Capabilities, format_args!("become group {gid}"))?;
        set_thread_res_uid(user, user, user)
            .or_broken(Layer::Capabilities, format_args!("become user {uid}"))?;
        // Root keeps what is listed; anybody else has lost it with the change, and has nothing to keep.
        let held = if uid == 0 { keep } else { CapabilitySet::empty() };
        let sets = CapabilitySets { effective: held, permitted: held, inheritable: CapabilitySet::empty() };
        set_capabilities(None, sets).or_broken(Layer::Capabilities, "drop capabilities")
    }

    fn landlock(&self) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let abi = ABI::V5;
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(abi))?
            .create()?
            .add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::from_read(abi)))?;
        for place in &self.writable {
            // An image need not have all of them.
            if let Ok(place) = PathFd::new(place) {
                rules = rules.add_rule(PathBeneath::new(place, AccessFs::from_all(abi)))?;
            }
        }
        rules.restrict_self()?;
        Ok(())
    }
}
