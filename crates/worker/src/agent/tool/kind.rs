//! Which tools there are, and which of them a session has.

use omoi_protocol::launch::{ExecutionMode, PermissionMode};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Edit,
    Bash,
    Glob,
    Grep,
}

/// Whether others may run beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Any number at once.
    Reads,
    /// One after the other.
    Writes,
}

impl Kind {
    pub const ALL: [Self; 6] = [Self::Read, Self::Write, Self::Edit, Self::Bash, Self::Glob, Self::Grep];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::Write => "Write",
            Self::Edit => "Edit",
            Self::Bash => "Bash",
            Self::Glob => "Glob",
            Self::Grep => "Grep",
        }
    }

    pub const fn effect(self) -> Effect {
        match self {
            Self::Read | Self::Glob | Self::Grep => Effect::Reads,
            Self::Write | Self::Edit | Self::Bash => Effect::Writes,
        }
    }

    /// Those that mode, permission and lists leave.
    pub fn offered(
        mode: ExecutionMode,
        permission: PermissionMode,
        allowed: Option<&[String]>,
        disallowed: &[String],
    ) -> Vec<Self> {
        let listed = |kind: &Self| {
            allowed.is_none_or(|allowed| allowed.iter().any(|entry| entry == kind.name()))
                && !disallowed.iter().any(|entry| name_of(entry) == kind.name())
        };
        let kinds = Self::ALL.into_iter();
        kinds.filter(|kind| kind.fits(mode, permission)).filter(listed).collect()
    }

    fn fits(self, mode: ExecutionMode, permission: PermissionMode) -> bool {
        let judges = mode == ExecutionMode::Validation;
        match self {
            Self::Read | Self::Glob | Self::Grep => true,
            Self::Bash => permission != PermissionMode::Plan,
            Self::Write | Self::Edit => permission != PermissionMode::Plan && !judges,
        }
    }
}

/// Of `Bash(rm:*)` the name. Such a rule cannot be held, since a shell has many ways to say the same: one that
/// forbids a part forbids the tool, and one that allows a part allows nothing.
fn name_of(entry: &str) -> &str {
    entry.split_once('(').map_or(entry, |(name, _)| name).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_permission_and_lists_leave_the_tools_they_should() {
        use {ExecutionMode as M, PermissionMode as P};
        let list = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let all = &["Read", "Write", "Edit", "Bash", "Glob", "Grep"];
        let reading = &["Read", "Glob", "Grep"];
        type Names = &'static [&'static str];
        let table: [(M, P, Option<Names>, Names, Names); 9] = [
            (M::Implementation, P::AcceptEdits, None, &[], all),
            (M::Implementation, P::All, None, &[], all),
            (M::Exploration, P::AcceptEdits, None, &[], all),
            (M::Implementation, P::Plan, None, &[], reading),
            (M::Validation, P::Plan, None, &[], reading),
            (M::Validation, P::All, None, &[], &["Read", "Bash", "Glob", "Grep"]),
            (M::Implementation, P::Plan, Some(&["Bash", "Read", "Nonsense"]), &[], &["Read"]),
            (M::Implementation, P::All, Some(&["Bash(ls:*)", "Grep"]), &["Read"], &["Grep"]),
            (M::Implementation, P::All, None, &["Bash(rm:*)", "Edit"], &["Read", "Write", "Glob", "Grep"]),
        ];
        for (mode, permission, allowed, disallowed, expected) in table {
            let allowed = allowed.map(list);
            let offered = Kind::offered(mode, permission, allowed.as_deref(), &list(disallowed));
            let names: Vec<_> = offered.into_iter().map(Kind::name).collect();
            assert_eq!(names, expected, "{mode:?} {permission:?} {allowed:?} {disallowed:?}");
        }
    }
}
