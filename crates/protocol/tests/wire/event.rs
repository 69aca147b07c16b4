//! Every kind of event: its shape, and that nothing is lost on the way through `Payload`.

use omoi_protocol::event::*;
use proptest::prelude::*;
use serde_json::{Map, Value, json, value::RawValue};

use crate::{sample::sample, snapshot};

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn parse(event_type: &str, data: &Value) -> Payload {
    Payload::parse(event_type, &raw(data))
}

/// An event of this kind in which every field is set.
fn example(kind: EventKind) -> Value {
    object(kind, sample)
}

fn object(kind: EventKind, value: fn(&str) -> Value) -> Value {
    let fields = kind.fields().into_iter();
    Value::Object(fields.map(|field| (field.to_owned(), value(field))).collect())
}

#[test]
fn every_kind_has_its_snapshot() {
    for kind in EventKind::ALL {
        let payload = parse(kind.as_str(), &example(*kind));
        assert_eq!(payload.kind(), Some(*kind), "the samples of {kind:?} do not fit its fields");
        let event = json!({ "event_type": payload.event_type(), "event_data": payload.to_value().unwrap() });
        snapshot(&format!("event-{kind}"), event);
    }
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots");
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let count = names.filter(|name| name.to_string_lossy().starts_with("event-")).count();
    assert_eq!(count, EventKind::ALL.len(), "a snapshot without a kind");
}

#[test]
fn every_kind_is_spelt_alike_everywhere() {
    for kind in EventKind::ALL {
        assert_eq!(EventKind::of(kind.as_str()), Some(*kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        assert!(kind.as_str().len() <= EVENT_TYPE_CHARS_MAX);
    }
    assert_eq!(EventKind::of("agent.levitated"), None);
}

#[test]
fn every_kind_keeps_what_it_does_not_know() {
    for kind in EventKind::ALL {
        let mut data = example(*kind);
        data["unheard_of"] = json!({ "deep": [1, 2.5, null, { "x": "ü" }] });
        data["also"] = Value::Null;
        let payload = parse(kind.as_str(), &data);
        assert_eq!(payload.kind(), Some(*kind));
        assert_eq!(payload.to_value().unwrap(), data, "{kind:?}");
        assert_eq!(serde_json::from_str::<Value>(payload.to_raw().get()).unwrap(), data, "{kind:?}");
    }
}

#[test]
fn every_kind_takes_absent_and_null_fields_and_tells_them_apart() {
    for kind in EventKind::ALL {
        for data in [json!({}), object(*kind, |_| Value::Null)] {
            let payload = parse(kind.as_str(), &data);
            assert_eq!(payload.kind(), Some(*kind));
            assert_eq!(payload.to_value().unwrap(), data, "{kind:?}");
        }
    }
}

#[test]
fn a_field_that_is_set_replaces_the_null_it_came_with() {
    let data = json!({ "message": null });
    let Payload::AgentWaiting(mut waiting) = parse("agent.waiting", &data) else { panic!() };
    waiting.message = Some("for the build".to_owned());
    assert_eq!(Payload::from(*waiting).to_value().unwrap(), json!({ "message": "for the build" }));
}

#[test]
fn data_that_does_not_fit_its_type_passes_through_unharmed() {
    for kind in EventKind::ALL {
        for data in [json!({ "task_id": 7, "turn": "third" }), json!([]), json!(null), json!("text")] {
            let payload = parse(kind.as_str(), &data);
            assert!(matches!(payload, Payload::Other { .. }), "{kind:?} {data}");
            assert_eq!(payload.event_type(), kind.as_str());
            assert_eq!(payload.to_value().unwrap(), data);
        }
    }
}

#[test]
fn an_unknown_type_passes_through_to_the_byte() {
    let nested = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    for text in [r#"{ "b" : 1.0,"a":1e999, "b":2 }"#, "{}", r#"{"text":"\u00fc"}"#, &nested] {
        let data = RawValue::from_string(text.to_owned()).unwrap();
        let payload = Payload::parse("guardian.steering.intervention", &data);
        assert_eq!((payload.event_type(), payload.to_raw().get()), ("guardian.steering.intervention", text));
        // What no `Value` can hold is kept even where the type is known.
        assert_eq!(Payload::parse("agent.message", &data).event_type(), "agent.message");
    }
}

#[test]
fn a_payload_is_made_and_signed_by_its_worker() {
    let edited = AgentFileEdited {
        file_path: Some("src/main.rs".to_owned()),
        change_type: Some(FileChange::Renamed),
        previous_path: Some("main.rs".to_owned()),
        ..Default::default()
    };
    let common = Common { sandbox_id: Some("sbx-1".to_owned()), ..Default::default() };
    let payload = Payload::from(edited).with_common(common.clone());
    assert_eq!(payload.common(), Some(&common));
    let event = NewEvent::new(&payload, omoi_protocol::EventSource::Worker);
    snapshot("new-event", event);
}

#[test]
fn a_new_event_needs_a_type_and_nothing_else() {
    let event: NewEvent = serde_json::from_str(r#"{"event_type":"agent.waiting","priority":9}"#).unwrap();
    assert_eq!((event.event_data.get(), event.source.as_str(), event.worker_seq), ("{}", "agent", None));
    let given = r#"{"event_type":"x","event_data":{ "n": 1.0 },"source":"worker","worker_seq":4}"#;
    let event: NewEvent = serde_json::from_str(given).unwrap();
    assert_eq!(
        (event.event_data.get(), event.source.as_str(), event.worker_seq),
        (r#"{ "n": 1.0 }"#, "worker", Some(4))
    );
    assert!(serde_json::from_str::<NewEvent>(r#"{"event_type":"x","source":"guardian"}"#).is_err());
    assert!(serde_json::from_str::<NewEvent>(r#"{"event_data":{}}"#).is_err());
}

#[test]
fn a_stored_event_round_trips() {
    let text = concat!(
        r#"{"id":"evt-42","sandbox_id":"sbx-1","seq":7,"worker_seq":6,"event_type":"agent.message","#,
        r#""event_data":{"turn":1,"content":"hello"},"source":"agent","created_at":"2026-01-21T17:44:08Z"}"#
    );
    let event: StoredEvent = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&event).unwrap(), text);
    let Payload::AgentMessage(message) = event.payload() else { panic!() };
    assert_eq!((message.turn, message.content.as_deref()), (Some(1), Some("hello")));
    assert!(event.is_work() && !event.is_heartbeat());
}

#[test]
fn heartbeats_waiting_and_failures_are_not_work() {
    let idle: Vec<_> =
        EventKind::ALL.iter().map(|kind| kind.as_str()).filter(|word| !is_work(word)).collect();
    snapshot("not-work", &idle);
    let beats: Vec<_> = idle.into_iter().filter(|word| is_heartbeat(word)).collect();
    assert_eq!(beats, ["agent.heartbeat", "heartbeat", "spec.heartbeat"]);
    assert!(is_work("something.nobody_has_thought_of") && !is_heartbeat("something.nobody_has_thought_of"));
}

/// As workers of the earlier system send them: nulls, empty ids, whole numbers where fractions may stand, its own extras.
#[test]
fn events_of_the_earlier_workers_are_understood() {
    let started = json!({
        "task_id": "", "agent_id": "7c1f", "sandbox_id": "omoios-1234abcd-9f8e7d", "timestamp": "2026-01-21T17:44:08.123456+00:00",
        "sdk": "claude_agent_sdk", "model": "claude-opus-4-5-20251101", "task": "Add a health check", "task_description_length": 18,
        "ticket_title": null, "resumed_session_id": null, "is_resuming": false, "fork_session": false,
    });
    let payload = parse("agent.started", &started);
    assert_eq!(payload.common().unwrap().task_id.as_deref(), Some(""));
    assert_eq!(payload.to_value().unwrap(), started);

    let completed = json!({
        "task_id": "t-1", "stop_reason": "max_runs_reached", "iteration_num": 3, "successful_iterations": 3, "error_count": 0,
        "total_cost_usd": 0, "completion_signal_count": 1, "elapsed_seconds": 81.25, "last_session_id": null,
        "validation_passed": true, "tests_passed": true, "pr_url": null, "pr_number": null, "files_changed": 4,
        "ci_status": [{ "name": "build", "state": "SUCCESS" }], "extra_iterations": 0,
    });
    let payload = parse("continuous.completed", &completed);
    assert_eq!(payload.to_value().unwrap(), completed);
    let Payload::ContinuousCompleted(data) = payload else { panic!() };
    assert_eq!(data.stop_reason, Some(ContinuousStop::Other("max_runs_reached".to_owned())));
    assert_eq!(data.state.validation_passed, Some(true));
    assert_eq!(data.state.total_cost_usd.unwrap().get(), 0.0);
    assert_eq!(data.extra["extra_iterations"], 0);

    let phase = json!({ "spec_id": "spec-1", "phase": "prd", "eval_score": 1, "duration_seconds": 45.3, "retry_count": 0, "phase_output": {} });
    let Payload::SpecPhaseCompleted(data) = parse("spec.phase_completed", &phase) else { panic!() };
    assert_eq!(data.phase, Some(omoi_protocol::SpecPhase::Prd));
    assert_eq!(data.eval_score.unwrap().get(), 1.0);

    let edited = json!({ "change_type": "created", "full_diff": null });
    let Payload::AgentFileEdited(data) = parse("agent.file_edited", &edited) else { panic!() };
    assert_eq!(data.change_type, Some(FileChange::Created));

    let broken = json!({ "error_type": "sigkill" });
    let Payload::AgentStreamError(data) = parse("agent.stream_error", &broken) else { panic!() };
    assert_eq!(data.error_type, Some(StreamErrorType::Sigkill));
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..4).prop_map(|map| Map::from_iter(map).into()),
        ]
    })
}

/// Some fields that the kind knows, with fitting or arbitrary values, and some that it does not.
fn event_of(kind: EventKind) -> impl Strategy<Value = (String, Value)> {
    let fields = kind.fields();
    let known = prop::sample::select(fields).prop_flat_map(|field| {
        let value = prop_oneof![4 => Just(sample(field)), 1 => json_value()];
        (Just(field.to_owned()), value)
    });
    let entry = prop_oneof![3 => known, 1 => (".{0,8}", json_value())];
    prop::collection::vec(entry, 0..8)
        .prop_map(move |entries| (kind.as_str().to_owned(), Map::from_iter(entries).into()))
}

fn event() -> impl Strategy<Value = (String, Value)> {
    let unknown = (".{0,20}", prop::collection::btree_map(".{0,8}", json_value(), 0..6));
    prop_oneof![
        4 => prop::sample::select(EventKind::ALL).prop_flat_map(event_of),
        1 => unknown.prop_map(|(event_type, map)| (event_type, Map::from_iter(map).into())),
    ]
}

proptest! {
    #[test]
    fn any_event_passes_through_equal((event_type, data) in event()) {
        let data = raw(&data);
        let payload = Payload::parse(&event_type, &data);
        prop_assert_eq!(payload.event_type(), event_type);
        // Compared as read back, because serde_json may read a float one bit beside what was written.
        prop_assert_eq!(payload.to_value().unwrap(), serde_json::from_str::<Value>(data.get()).unwrap());
    }
}

#[test]
fn the_catalogue_lists_every_kind_with_every_field() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
    let page = std::fs::read_to_string(page).unwrap();
    let page = page.split("## The catalogue of events").nth(1).unwrap();
    let common = ["task_id", "agent_id", "sandbox_id", "spec_id"];
    let state = page.split("The state of a run of several iterations").nth(1).unwrap();
    for kind in EventKind::ALL {
        let start = format!("| `{kind}` |");
        let row = page.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("docs/protocol.md does not list {kind}"));
        let shared = if row.contains("and the state") { state } else { "" };
        for field in kind.fields().into_iter().filter(|field| !common.contains(field)) {
            let named = format!("`{field}`");
            assert!(row.contains(&named) || shared.contains(&named), "{kind}: {named} is not in its row");
        }
    }
}
