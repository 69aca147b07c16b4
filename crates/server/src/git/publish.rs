//! Which branches of the far repository are shown to sandboxes, and which of those that are there were put there so:
//! only these follow the far side. Any other was made here, and is never touched.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::commit::CommitId;

pub type Branches = BTreeMap<String, CommitId>;

/// What is to be done to `refs/heads/`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub delete: Vec<String>,
    pub set: Branches,
}

/// `followed` are those of `heads` that follow the far side. A far branch that would lie across one of ours, as `fix`
/// does across `fix/1`, is left out: Git keeps one or the other.
pub fn plan(far: &Branches, heads: &Branches, followed: &BTreeSet<String>) -> Plan {
    let ours: Vec<&String> = heads.keys().filter(|name| !followed.contains(*name)).collect();
    let is_free = |name: &String| name != "HEAD" && !ours.iter().any(|own| *own == name || cross(own, name));
    let is_new = |name: &String, tip| heads.get(name) != Some(tip) || !followed.contains(name);
    let set = far.iter().filter(|(name, tip)| is_free(name) && is_new(name, tip));
    Plan {
        delete: followed.iter().filter(|name| !far.contains_key(*name)).cloned().collect(),
        set: set.map(|(name, tip)| (name.clone(), tip.clone())).collect(),
    }
}

/// Whether one is a directory on the way to the other.
pub fn cross(one: &str, other: &str) -> bool {
    let below = |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('/'));
    below(one, other) || below(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branches(list: &[(&str, char)]) -> Branches {
        list.iter()
            .map(|(name, tip)| ((*name).to_owned(), tip.to_string().repeat(40).parse().unwrap()))
            .collect()
    }

    #[test]
    fn what_is_far_is_shown_and_what_is_ours_stays() {
        // Far, there, followed, then what is deleted and what is set.
        for (far, heads, followed, delete, set) in [
            (&[("main", 'a')][..], &[][..], &[][..], &[][..], &[("main", 'a')][..]),
            (&[("main", 'b')], &[("main", 'a')], &["main"], &[], &[("main", 'b')]),
            (&[("main", 'a')], &[("main", 'a')], &["main"], &[], &[]),
            (&[], &[("old", 'a')], &["old"], &["old"], &[]),
            (&[], &[("fix/1", 'a')], &[], &[], &[]),
            (&[("fix/1", 'b')], &[("fix/1", 'a')], &[], &[], &[]),
            (&[("fix", 'b')], &[("fix/1", 'a')], &[], &[], &[]),
            (&[("fix/1/x", 'b')], &[("fix/1", 'a')], &[], &[], &[]),
            (&[("a/b", 'b')], &[("a", 'a')], &["a"], &["a"], &[("a/b", 'b')]),
            (&[("HEAD", 'b')], &[], &[], &[], &[]),
        ] {
            let followed = followed.iter().map(|name: &&str| (*name).to_owned()).collect();
            let planned = plan(&branches(far), &branches(heads), &followed);
            let delete = delete.iter().map(|name: &&str| (*name).to_owned()).collect();
            assert_eq!(planned, Plan { delete, set: branches(set) }, "{far:?} {heads:?} {followed:?}");
        }
    }
}
