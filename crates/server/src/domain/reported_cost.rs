//! What a worker says that it spent. The server sees no bill of a model that a worker calls by itself, so each amount here
//! is a claim: it is bounded, it is kept apart from what the gateway counted, and budgets count it only where the gateway
//! has no figure.
//!
//! Workers report the total of a conversation so far, again and again. So the cost of a conversation is the highest
//! total that was reported of it, and the cost of a sandbox is the sum over its conversations. A total that names no
//! conversation is the total of the run. It counts while no conversation has a total, because the earlier system's
//! worker adds up totals that are cumulative already.

use std::collections::BTreeMap;

use omoi_protocol::SpecPhase;
use serde_json::Value;

use super::money::Usd;

/// No sandbox can have spent more. A larger amount is ignored, and the sums of all sandboxes cannot overflow.
pub const SANDBOX_MAX: Usd = Usd::from_nanos(100_000 * 1_000_000_000);
/// Conversations of one sandbox that are told apart. Further ones share one total.
const SESSIONS_MAX: usize = 64;
const SESSION_CHARS_MAX: usize = 200;
/// The run as a whole.
pub const RUN: &str = "";
/// The conversations beyond the limit.
const OTHERS: &str = "*";

/// A total that a worker reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The conversation, or the run.
    pub session: String,
    pub total: Usd,
}

/// What one event says of cost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reported {
    pub claims: Vec<Claim>,
    /// Amounts that are not an amount in USD up to [`SANDBOX_MAX`].
    pub ignored: u32,
}

/// The totals of a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// The highest total of each conversation, and of the run.
    pub sessions: BTreeMap<String, Usd>,
    /// What the sandbox has spent by its own account. It never falls.
    pub total: Usd,
}

/// Whether [`read`] may find something. Cheap, and asked before an event's data is parsed.
pub fn is_costly(event_type: &str) -> bool {
    matches!(
        event_type,
        "agent.completed"
            | "agent.failed"
            | "agent.turn_complete"
            | "agent.result"
            | "agent.session_ended"
            | "iteration.completed"
            | "continuous.completed"
            | "spec.phase_completed"
    )
}

pub fn read(event_type: &str, data: &Value) -> Reported {
    let mut found = Reported::default();
    match event_type {
        "agent.completed"
        | "agent.failed"
        | "agent.turn_complete"
        | "agent.result"
        | "agent.session_ended" => {
            let outputs = data["phase_data"].as_object();
            let session = data["session_id"].as_str().filter(|_| outputs.is_none()).unwrap_or(RUN);
            found.take(session, first(data, &["cost_usd", "total_cost_usd"]));
            for (phase, output) in outputs.into_iter().flatten() {
                found.take_phase(phase, output);
            }
        }
        // The cost of one iteration is no total; the state has that.
        "iteration.completed" => found.take(RUN, first(of_loop(data), &["total_cost_usd"])),
        "continuous.completed" => found.take(RUN, first(of_loop(data), &["total_cost_usd", "cost_usd"])),
        "spec.phase_completed" => {
            found.take_phase(data["phase"].as_str().unwrap_or_default(), &data["phase_output"]);
        }
        _ => {}
    }
    found
}

/// A loop reports most of its numbers one level down, in `state`.
fn of_loop(data: &Value) -> &Value {
    if data["state"].is_object() { &data["state"] } else { data }
}

fn first<'a>(data: &'a Value, keys: &[&str]) -> &'a Value {
    keys.iter().map(|key| &data[*key]).find(|value| !value.is_null()).unwrap_or(&Value::Null)
}

impl Reported {
    fn take(&mut self, session: &str, amount: &Value) {
        if amount.is_null() {
            return;
        }
        match amount.as_f64().and_then(Usd::from_f64).filter(|total| *total <= SANDBOX_MAX) {
            Some(Usd::ZERO) => {}
            Some(total) => {
                let session = session.chars().take(SESSION_CHARS_MAX).collect();
                self.claims.push(Claim { session, total });
            }
            None => self.ignored += 1,
        }
    }

    /// Each phase of a spec is a conversation of its own, and its output says what that cost.
    fn take_phase(&mut self, phase: &str, output: &Value) {
        if let Ok(phase) = phase.parse::<SpecPhase>() {
            self.take(&format!("phase:{phase}"), &output["_execution"]["cost_usd"]);
        }
    }
}

impl Tally {
    /// Takes a claim in. Returns by how much the sandbox's cost grows, which is nothing for a claim that was made before.
    pub fn take(&mut self, claim: Claim) -> Usd {
        let is_new = !self.sessions.contains_key(&claim.session);
        let session = match claim.session.as_str() {
            RUN => claim.session,
            _ if is_new && self.sessions.len() >= SESSIONS_MAX => OTHERS.to_owned(),
            _ => claim.session,
        };
        let highest = self.sessions.entry(session).or_default();
        *highest = (*highest).max(claim.total);
        let of_sessions: Usd =
            self.sessions.iter().filter(|(session, _)| *session != RUN).map(|(_, total)| *total).sum();
        let of_run = self.sessions.get(RUN).copied().unwrap_or_default();
        let total = if of_sessions > Usd::ZERO { of_sessions } else { of_run };
        let before = self.total;
        self.total = before.max(total).min(SANDBOX_MAX);
        self.total - before
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn usd(text: &str) -> Usd {
        text.parse().unwrap()
    }

    #[test]
    fn each_kind_of_event_tells_of_its_conversation_or_of_the_run() {
        for (event_type, data, claims) in [
            ("agent.completed", json!({ "cost_usd": 0.5, "session_id": "a" }), vec![("a", "0.5")]),
            ("agent.completed", json!({ "cost_usd": 0.5 }), vec![(RUN, "0.5")]),
            ("agent.failed", json!({ "cost_usd": 1, "session_id": "a" }), vec![("a", "1")]),
            (
                "agent.turn_complete",
                json!({ "total_cost_usd": 2.25, "session_id": "b" }),
                vec![("b", "2.25")],
            ),
            ("agent.result", json!({ "total_cost_usd": 2, "session_id": "b" }), vec![("b", "2")]),
            ("agent.session_ended", json!({ "total_cost_usd": 2, "session_id": "b" }), vec![("b", "2")]),
            (
                "iteration.completed",
                json!({ "cost_usd": 1, "state": { "total_cost_usd": 3 } }),
                vec![(RUN, "3")],
            ),
            ("iteration.completed", json!({ "cost_usd": 1, "total_cost_usd": 3 }), vec![(RUN, "3")]),
            ("iteration.completed", json!({ "cost_usd": 1 }), vec![]),
            (
                "continuous.completed",
                json!({ "state": { "total_cost_usd": 4, "last_session_id": "a" } }),
                vec![(RUN, "4")],
            ),
            (
                "spec.phase_completed",
                json!({ "phase": "design", "phase_output": { "_execution": { "cost_usd": 0.25 } } }),
                vec![("phase:design", "0.25")],
            ),
            (
                "agent.completed",
                json!({ "session_id": "a", "phase_data": {
                    "design": { "_execution": { "cost_usd": 0.25 } }, "explore": { "_execution": { "cost_usd": 1 } },
                    "lunch": { "_execution": { "cost_usd": 9 } },
                } }),
                vec![("phase:design", "0.25"), ("phase:explore", "1")],
            ),
            ("agent.completed", json!({ "cost_usd": 0 }), vec![]),
            ("agent.completed", json!({ "usage": { "input_tokens": 5 } }), vec![]),
            ("agent.completed", json!(null), vec![]),
            ("model.call", json!({ "cost_usd": 1 }), vec![]),
        ] {
            let found = read(event_type, &data);
            let wanted: Vec<_> = claims
                .into_iter()
                .map(|(session, total)| Claim { session: session.to_owned(), total: usd(total) })
                .collect();
            assert_eq!((found.claims, found.ignored), (wanted, 0), "{event_type} {data}");
        }
    }

    #[test]
    fn what_is_no_amount_is_ignored_and_counted() {
        for bad in [json!(-0.01), json!(1e300), json!(100_001), json!("5"), json!([5]), json!({ "usd": 5 })] {
            let found = read("agent.completed", &json!({ "cost_usd": bad, "session_id": "a" }));
            assert_eq!(found, Reported { claims: vec![], ignored: 1 }, "{bad}");
        }
    }

    #[test]
    fn totals_of_a_conversation_are_cumulative_and_conversations_add_up() {
        for (claims, total) in [
            (vec![("a", "1"), ("a", "2"), ("a", "3")], "3"),
            (vec![("a", "3"), ("a", "1")], "3"),
            (vec![("a", "1"), ("b", "2")], "3"),
            // The earlier system's worker adds up cumulative totals in its state: 1, 1 + 2, 1 + 2 + 3.
            (vec![("a", "1"), (RUN, "1"), ("a", "2"), (RUN, "3"), ("a", "3"), (RUN, "6")], "3"),
            (vec![(RUN, "1"), (RUN, "3")], "3"),
            (vec![(RUN, "1"), ("a", "0.5"), ("a", "2")], "2"),
            (vec![("a", "100000"), ("b", "100000")], "100000"),
        ] {
            let mut tally = Tally::default();
            for (session, total) in &claims {
                tally.take(Claim { session: (*session).to_owned(), total: usd(total) });
            }
            assert_eq!(tally.total, usd(total), "{claims:?}");
        }
    }

    fn claims() -> impl Strategy<Value = Vec<Claim>> {
        let claim = (0..200u32, 1..=SANDBOX_MAX.nanos()).prop_map(|(session, nanos)| Claim {
            session: if session == 0 { RUN.to_owned() } else { session.to_string() },
            total: Usd::from_nanos(nanos),
        });
        proptest::collection::vec(claim, 0..300)
    }

    proptest! {
        #[test]
        fn a_tally_grows_by_what_it_says_stays_bounded_and_takes_no_claim_twice(claims in claims()) {
            let mut tally = Tally::default();
            for claim in claims {
                let before = tally.total;
                let grown = tally.take(claim.clone());
                prop_assert!(grown >= Usd::ZERO);
                prop_assert_eq!(before + grown, tally.total);
                prop_assert!(tally.total <= SANDBOX_MAX);
                prop_assert!(tally.sessions.len() <= SESSIONS_MAX + 2);
                prop_assert_eq!(tally.take(claim), Usd::ZERO);
            }
        }
    }
}
