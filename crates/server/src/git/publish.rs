//! Which branches of the far repository are shown to sandboxes. Branches that were made here are never touched.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::commit::CommitId;

pub type Branches = BTreeMap<String, CommitId>;

/// What is to be done to `refs/heads/`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub delete: Vec<String>,
    pub set: Branches,
}

/// Branches that were not made here follow the far side. One that would lie across a branch of ours, as `fix` does
/// across `fix/1`, is left out: Git keeps one or the other.
pub fn plan(far: &Branches, shown: &Branches, ours: &BTreeSet<String>) -> Plan {
    let is_free =
        |name: &str| name != "HEAD" && !ours.contains(name) && !ours.iter().any(|own| cross(own, name));
    Plan {
        delete: shown
            .keys()
            .filter(|name| !ours.contains(*name) && !far.contains_key(*name))
            .cloned()
            .collect(),
        set: far
            .iter()
            .filter(|(name, tip)| is_free(name) && shown.get(*name) != Some(tip))
            .map(|(name, tip)| (name.clone(), tip.clone()))
            .collect(),
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
        // Far, shown, ours, then what is deleted and what is set.
        for (far, shown, ours, delete, set) in [
            (&[("main", 'a')][..], &[][..], &[][..], &[][..], &[("main", 'a')][..]),
            (&[("main", 'b')], &[("main", 'a')], &[], &[], &[("main", 'b')]),
            (&[("main", 'a')], &[("main", 'a')], &[], &[], &[]),
            (&[], &[("old", 'a')], &[], &["old"], &[]),
            (&[], &[("fix/1", 'a')], &["fix/1"], &[], &[]),
            (&[("fix/1", 'b')], &[("fix/1", 'a')], &["fix/1"], &[], &[]),
            (&[("fix", 'b')], &[("fix/1", 'a')], &["fix/1"], &[], &[]),
            (&[("fix/1/x", 'b')], &[("fix/1", 'a')], &["fix/1"], &[], &[]),
            (&[("a/b", 'b')], &[("a", 'a')], &[], &["a"], &[("a/b", 'b')]),
            (&[("HEAD", 'b')], &[], &[], &[], &[]),
        ] {
            let ours = ours.iter().map(|name: &&str| (*name).to_owned()).collect();
            let planned = plan(&branches(far), &branches(shown), &ours);
            let wanted =
                Plan { delete: delete.iter().map(|n: &&str| (*n).to_owned()).collect(), set: branches(set) };
            assert_eq!(planned, wanted, "{far:?} {shown:?} {ours:?}");
        }
    }
}
