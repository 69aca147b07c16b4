//! What is made depends on its seed alone, and every kind of finding has its faults.

use omoi_protocol::FindingKind;

use super::{fault::FAULTS, *};

#[test]
fn the_same_seed_makes_the_same_runs() {
    let text = |seed| {
        let cases = generate(seed, 40, &[]);
        cases.iter().map(|case| format!("{} {:?}", case.name, case.events)).collect::<String>()
    };
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8));
}

#[test]
fn every_kind_of_finding_is_put_into_some_run() {
    // What a model says is no rule's to be right about.
    for kind in FindingKind::ALL.iter().filter(|kind| **kind != FindingKind::Misaligned) {
        assert!(FAULTS.iter().any(|fault| fault.kind == *kind), "{kind}");
    }
}

#[test]
fn events_are_numbered_and_time_does_not_go_back() {
    for case in generate(1, 60, &[]) {
        for (event, seq) in case.events.iter().zip(1..) {
            assert_eq!(event.seq, seq, "{}", case.name);
        }
        assert!(case.events.windows(2).all(|pair| pair[0].created_at <= pair[1].created_at), "{}", case.name);
        assert!(case.expected.iter().all(|one| one.seq > 1), "{}", case.name);
    }
}
