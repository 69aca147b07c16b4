//! The dependency graph of tasks, over any kind of id. An edge `(a, b)` says that `a` depends on `b`. Nothing
//! here recurses, so a chain may be as deep as memory allows.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

const ESTIMATE_SECONDS_MAX: i64 = 31_536_000;

/// How long a task is thought to take, where its `execution_config` says so.
pub fn estimated_seconds(config: &Map<String, Value>) -> Option<i64> {
    config.get("estimated_seconds")?.as_i64().filter(|n| (1..=ESTIMATE_SECONDS_MAX).contains(n))
}

pub fn check(config: &Map<String, Value>) -> Result<(), String> {
    match config.get("estimated_seconds") {
        None | Some(Value::Null) => Ok(()),
        Some(_) if estimated_seconds(config).is_some() => Ok(()),
        Some(other) => Err(format!(
            "execution_config.estimated_seconds is {other}; it must be a number from 1 to {ESTIMATE_SECONDS_MAX}"
        )),
    }
}

/// Groups that can be worked on together: each id stands in the first group that comes after all it depends on.
///
/// Edges to other ids do not count; what is in a cycle, or waits for one, is in no group.
pub fn groups<Id: Ord + Clone>(ids: &[Id], edges: &[(Id, Id)]) -> Vec<Vec<Id>> {
    let order = Order::new(ids, edges);
    let mut level = vec![0; ids.len()];
    let mut groups: Vec<Vec<Id>> = Vec::new();
    for at in order.sorted {
        level[at] = order.depends_on[at].iter().map(|on| level[*on] + 1).max().unwrap_or(0);
        if groups.len() <= level[at] {
            groups.push(Vec::new());
        }
        groups[level[at]].push(ids[at].clone());
    }
    groups.iter_mut().for_each(|group| group.sort());
    groups
}

/// The heaviest chain of dependencies in the order of work, and its weight. Of several, the one whose ids come first.
pub fn critical_path<Id: Ord + Clone>(weighed: &[(Id, u64)], edges: &[(Id, Id)]) -> (Vec<Id>, u64) {
    let ids: Vec<Id> = weighed.iter().map(|(id, _)| id.clone()).collect();
    let order = Order::new(&ids, edges);
    let mut best: Vec<(u64, Option<usize>)> = vec![(0, None); ids.len()];
    let heavier = |a: &(u64, usize), b: &(u64, usize)| a.0.cmp(&b.0).then_with(|| ids[b.1].cmp(&ids[a.1]));
    for at in &order.sorted {
        let before = order.depends_on[*at].iter().map(|on| (best[*on].0, *on)).max_by(heavier);
        let (weight, before) = before.map_or((0, None), |(weight, on)| (weight, Some(on)));
        best[*at] = (weight.saturating_add(weighed[*at].1), before);
    }
    let last = order.sorted.iter().map(|at| (best[*at].0, *at)).max_by(heavier);
    let mut path = Vec::new();
    let mut step = last.map(|(_, at)| at);
    while let Some(at) = step {
        path.push(ids[at].clone());
        step = best[at].1;
    }
    path.reverse();
    (path, last.map_or(0, |(weight, _)| weight))
}

/// Indices of ids, so that each comes after all it depends on.
struct Order {
    depends_on: Vec<Vec<usize>>,
    sorted: Vec<usize>,
}

impl Order {
    fn new<Id: Ord>(ids: &[Id], edges: &[(Id, Id)]) -> Self {
        let index: BTreeMap<&Id, usize> = ids.iter().enumerate().map(|(at, id)| (id, at)).collect();
        let (mut depends_on, mut wanted_by) = (vec![Vec::new(); ids.len()], vec![Vec::new(); ids.len()]);
        for (id, on) in edges {
            if let (Some(id), Some(on)) = (index.get(id), index.get(on)) {
                depends_on[*id].push(*on);
                wanted_by[*on].push(*id);
            }
        }
        let mut unmet: Vec<usize> = depends_on.iter().map(Vec::len).collect();
        let mut sorted: Vec<usize> = (0..ids.len()).filter(|at| unmet[*at] == 0).collect();
        let mut next = 0;
        while let Some(at) = sorted.get(next).copied() {
            next += 1;
            for waiting in &wanted_by[at] {
                unmet[*waiting] -= 1;
                if unmet[*waiting] == 0 {
                    sorted.push(*waiting);
                }
            }
        }
        Self { depends_on, sorted }
    }
}

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

    type Edges = &'static [(&'static str, &'static str)];

    #[test]
    fn a_cycle_is_named_from_an_id_back_to_itself() {
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

    #[test]
    fn ids_are_grouped_by_what_they_wait_for() {
        type Groups = &'static [&'static [&'static str]];
        let table: &[(&[&str], Edges, Groups)] = &[
            (&[], &[], &[]),
            (&["b", "a"], &[], &[&["a", "b"]]),
            (&["a", "b", "c"], &[("a", "b"), ("b", "c")], &[&["c"], &["b"], &["a"]]),
            (
                &["d", "l", "r", "t"],
                &[("d", "l"), ("d", "r"), ("l", "t"), ("r", "t")],
                &[&["t"], &["l", "r"], &["d"]],
            ),
            (&["a", "b", "c"], &[("a", "b"), ("a", "c"), ("b", "c")], &[&["c"], &["b"], &["a"]]),
            (&["a", "b"], &[("a", "elsewhere"), ("a", "b"), ("a", "b")], &[&["b"], &["a"]]),
        ];
        for (ids, edges, expected) in table {
            assert_eq!(groups(ids, edges), *expected, "{ids:?} with {edges:?}");
        }
    }

    #[test]
    fn the_critical_path_is_the_heaviest_chain() {
        type Weighed = &'static [(&'static str, u64)];
        let table: &[(Weighed, Edges, &[&str], u64)] = &[
            (&[], &[], &[], 0),
            (&[("a", 2), ("b", 3)], &[], &["b"], 3),
            (&[("b", 3), ("a", 3)], &[], &["a"], 3),
            (
                &[("t", 1), ("l", 5), ("r", 2), ("d", 1)],
                &[("d", "l"), ("d", "r"), ("l", "t"), ("r", "t")],
                &["t", "l", "d"],
                7,
            ),
            (&[("a", 1), ("b", 1), ("c", 9)], &[("a", "b")], &["c"], 9),
            (&[("a", u64::MAX), ("b", 1)], &[("a", "b")], &["b", "a"], u64::MAX),
        ];
        for (weighed, edges, path, weight) in table {
            assert_eq!(critical_path(weighed, edges), (path.to_vec(), *weight), "{weighed:?} with {edges:?}");
        }
    }

    #[test]
    fn a_deep_chain_is_one_path_and_as_many_groups() {
        let weighed: Vec<_> = (0..DEEP).map(|id| (id, 1)).collect();
        let ids: Vec<_> = (0..DEEP).collect();
        let chain: Vec<_> = (1..DEEP).map(|id| (id, id - 1)).collect();
        assert_eq!(critical_path(&weighed, &chain), (ids.clone(), u64::from(DEEP)));
        assert_eq!(groups(&ids, &chain).len(), DEEP as usize);
    }

    #[test]
    fn an_estimate_is_a_number_of_seconds() {
        let config = |value: Value| Map::from_iter([("estimated_seconds".to_owned(), value)]);
        for (value, fine) in [(60.into(), true), (Value::Null, true), (0.into(), false), ("60".into(), false)]
        {
            assert_eq!(check(&config(value.clone())).is_ok(), fine, "{value}");
        }
        assert_eq!(estimated_seconds(&config(60.into())), Some(60));
        assert_eq!(estimated_seconds(&Map::new()), None);
    }

    /// The heaviest chain that ends in each id, by trying all of them.
    fn heaviest(id: u8, weights: &[u64], edges: &[(u8, u8)]) -> u64 {
        let before = edges.iter().filter(|(of, _)| *of == id).map(|(_, on)| heaviest(*on, weights, edges));
        weights[usize::from(id)] + before.max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn no_chain_is_heavier_than_the_critical_path(
            weights in prop::collection::vec(1u64..20, 8),
            pairs in prop::collection::vec((0u8..8, 0u8..8), 0..16),
        ) {
            // What depends on smaller numbers alone is free of cycles.
            let edges: Vec<_> = pairs.into_iter().filter(|(id, on)| on < id).collect();
            let weighed: Vec<_> = (0u8..8).zip(weights.iter().copied()).collect();
            let (path, weight) = critical_path(&weighed, &edges);
            prop_assert_eq!(Some(weight), (0u8..8).map(|id| heaviest(id, &weights, &edges)).max());
            prop_assert_eq!(weight, path.iter().map(|id| weights[usize::from(*id)]).sum::<u64>());
            for step in path.windows(2) {
                prop_assert!(edges.contains(&(step[1], step[0])));
            }
        }

        #[test]
        fn each_id_is_in_one_group_right_behind_the_last_it_depends_on(
            pairs in prop::collection::vec((0u8..12, 0u8..12), 0..30),
        ) {
            let edges: Vec<_> = pairs.into_iter().filter(|(id, on)| on < id).collect();
            let ids: Vec<u8> = (0..12).collect();
            let groups = groups(&ids, &edges);
            let mut all: Vec<u8> = groups.iter().flatten().copied().collect();
            all.sort_unstable();
            prop_assert_eq!(&all, &ids);
            let group_of = |id: u8| groups.iter().position(|group| group.contains(&id)).unwrap();
            for id in ids {
                let on = edges.iter().filter(|(of, _)| *of == id).map(|(_, on)| group_of(*on) + 1).max();
                prop_assert_eq!(group_of(id), on.unwrap_or(0));
            }
        }

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
