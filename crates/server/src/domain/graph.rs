//! The dependency graph of tasks, over any kind of id. An edge `(a, b)` says that `a` depends on `b`. Nothing
//! here recurses, so a chain may be as deep as memory allows.

use std::collections::{BTreeMap, BTreeSet};

/// A cycle that the new edges close, from an id back to itself: `[a, b, a]`.
///
/// The edges that exist are taken to be free of cycles, so only what the new ones lead to is searched.
pub fn find_cycle<Id: Ord + Clone>(edges: &[(Id, Id)], new_edges: &[(Id, Id)]) -> Option<Vec<Id>> {
    let mut depends_on: BTreeMap<&Id, Vec<&Id>> = BTreeMap::new();
    for (id, dependency) in edges.iter().chain(new_edges) {
        depends_on.entry(id).or_default().push(dependency);
    }
    let mut cleared = BTreeSet::new();
    new_edges.iter().find_map(|(start, _)| cycle_from(start, &depends_on, &mut cleared))
}

/// Searches depth first with a path of its own. Ids from which no cycle can be reached end up in `cleared`.
fn cycle_from<'a, Id: Ord + Clone>(
    start: &'a Id,
    depends_on: &BTreeMap<&'a Id, Vec<&'a Id>>,
    cleared: &mut BTreeSet<&'a Id>,
) -> Option<Vec<Id>> {
    let ahead_of = |id: &'a Id| depends_on.get(id).map_or(&[][..], Vec::as_slice).iter();
    let mut path = vec![(start, ahead_of(start))];
    let mut on_path = BTreeSet::from([start]);
    while let Some((id, ahead)) = path.last_mut() {
        match ahead.next() {
            None => {
                on_path.remove(*id);
                cleared.insert(*id);
                path.pop();
            }
            Some(next) if on_path.contains(next) => {
                let around = path.iter().map(|(id, _)| *id).skip_while(|id| id != next);
                return Some(around.chain([*next]).cloned().collect());
            }
            Some(next) if cleared.contains(next) => {}
            Some(next) => {
                on_path.insert(next);
                path.push((next, ahead_of(next)));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DEEP: u32 = 100_000;

    #[test]
    fn a_cycle_is_named_from_an_id_back_to_itself() {
        type Edges = &'static [(&'static str, &'static str)];
        let table: &[(Edges, Edges, Option<&[&str]>)] = &[
            (&[], &[], None),
            (&[], &[("a", "b")], None),
            (&[], &[("a", "a")], Some(&["a", "a"])),
            (&[("b", "a")], &[("a", "b")], Some(&["a", "b", "a"])),
            (&[("b", "c"), ("c", "a")], &[("a", "b")], Some(&["a", "b", "c", "a"])),
            (&[], &[("a", "b"), ("b", "c"), ("c", "b")], Some(&["b", "c", "b"])),
            (&[("a", "b"), ("a", "c"), ("b", "d")], &[("c", "d")], None),
            (&[("a", "b")], &[("a", "b")], None),
        ];
        for (edges, new_edges, expected) in table {
            let cycle = find_cycle(edges, new_edges);
            assert_eq!(cycle.as_deref(), *expected, "{edges:?} and {new_edges:?}");
        }
    }

    #[test]
    fn a_deep_chain_neither_overflows_nor_takes_long() {
        let chain: Vec<_> = (0..DEEP).map(|id| (id, id + 1)).collect();
        assert_eq!(find_cycle(&[], &chain), None);

        let cycle = find_cycle(&chain, &[(DEEP, 0)]).unwrap();
        assert_eq!(cycle.len(), DEEP as usize + 2);
        assert_eq!((cycle.first(), cycle.last()), (Some(&DEEP), Some(&DEEP)));
    }

    #[test]
    fn shared_dependencies_are_looked_at_once() {
        let diamond = |top| [(top, top + 1), (top, top + 2), (top + 1, top + 3), (top + 2, top + 3)];
        let diamonds: Vec<_> = (0..1_000).flat_map(|id| diamond(3 * id)).collect();
        assert_eq!(find_cycle(&[], &diamonds), None);
    }

    proptest! {
        #[test]
        fn a_cycle_is_found_exactly_when_an_id_depends_on_itself(
            edges in prop::collection::vec((0u8..12, 0u8..12), 0..30),
        ) {
            let mut all: BTreeSet<(u8, u8)> = edges.iter().copied().collect();
            for via in 0..12 {
                for (from, to) in (0..12).flat_map(|from| (0..12).map(move |to| (from, to))) {
                    if all.contains(&(from, via)) && all.contains(&(via, to)) {
                        all.insert((from, to));
                    }
                }
            }
            match find_cycle(&[], &edges) {
                None => prop_assert!((0..12).all(|id| !all.contains(&(id, id)))),
                Some(cycle) => {
                    prop_assert!(cycle.len() >= 2);
                    prop_assert_eq!(cycle.first(), cycle.last());
                    for step in cycle.windows(2) {
                        prop_assert!(edges.contains(&(step[0], step[1])));
                    }
                }
            }
        }
    }
}
