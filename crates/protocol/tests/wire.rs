//! The shapes that cross the wire, as snapshots: a change to one of them shows in review.

#![allow(clippy::unwrap_used)]

#[path = "wire/event.rs"]
mod event;
#[path = "wire/launch.rs"]
mod launch;
#[path = "wire/outcome.rs"]
mod outcome;
#[path = "wire/sample.rs"]
mod sample;

/// Fields are sorted, so that the order in which a map happens to hold them does not show.
fn snapshot(name: &str, thing: impl serde::Serialize) {
    let value = serde_json::to_value(thing).unwrap();
    insta::with_settings!({ sort_maps => true, prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_json_snapshot!(name, value);
    });
}
