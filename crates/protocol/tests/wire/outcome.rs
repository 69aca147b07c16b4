//! How attempts end and specs are started, in JSON.

use omoi_protocol::{FailureKind, SpecFlow, SpecPhase, SpecStatus, Verification, outcome::*, spec::*};
use serde_json::{Value, json};

use crate::snapshot;

#[test]
fn an_outcome_carries_its_evidence() {
    let outcome = Outcome {
        output: Some("The health check answers 200.".to_owned()),
        turns: Some(12),
        cost_usd: Some(0.42),
        tokens: Some(Tokens {
            input_tokens: 10,
            output_tokens: 20,
            cache_read_tokens: 30,
            cache_write_tokens: 40,
        }),
        session_id: Some("0198c0de-session".to_owned()),
        stop_reason: Some("end_turn".to_owned()),
        branch_name: Some("feature/tkt-1-health-check".to_owned()),
        commit: Some("4f2c9d1e".to_owned()),
        artifacts: vec![Artifact {
            artifact_type: "code_changes".to_owned(),
            path: Some("https://github.com/acme/shop/pull/12".to_owned()),
            content: json!({ "files_changed": 4 }),
        }],
        checks: vec![CheckResult {
            name: "test".to_owned(),
            command: "cargo test".to_owned(),
            exit_code: Some(0),
            passed: true,
            duration_ms: Some(1234),
            output_preview: "test result: ok".to_owned(),
            output_blob: Some("sha256-9f86d081".to_owned()),
            sandbox_id: None,
        }],
        verification: Verification::Verified,
        pr: Some(PullRequest { number: 12, url: "https://github.com/acme/shop/pull/12".to_owned() }),
        ..Outcome::succeeded()
    };
    round_trip(&outcome);
    snapshot("outcome", outcome);
}

#[test]
fn an_outcome_without_evidence_is_unverified() {
    let outcome: Outcome = serde_json::from_str(r#"{"success":true,"unheard_of":1}"#).unwrap();
    assert_eq!(outcome, Outcome::succeeded());
    snapshot("outcome-bare", Outcome::failed());
}

#[test]
fn a_failure_says_why() {
    let failure = Failure {
        exit_code: None,
        signal: Some(9),
        ..Failure::new(FailureKind::OutOfMemory, "killed at 4 GB")
    };
    assert_eq!(failure.to_string(), "out_of_memory: killed at 4 GB");
    round_trip(&failure);
    snapshot("failure", failure);
}

#[test]
fn a_spec_is_started_with_or_without_wishes() {
    assert_eq!(serde_json::from_str::<ExecuteSpec>("{}").unwrap(), ExecuteSpec::default());
    let asked: ExecuteSpec =
        serde_json::from_str(r#"{"enable_embeddings":false,"resume_from_phase":"design"}"#).unwrap();
    assert_eq!(asked, ExecuteSpec { enable_embeddings: false, resume_from_phase: Some(SpecPhase::Design) });
    assert!(serde_json::from_str::<ExecuteSpec>(r#"{"resume_from_phase":"all"}"#).is_err());
    let answer = SpecExecution {
        spec_id: "spec-1".parse().unwrap(),
        status: ExecutionStatus::AlreadyRunning,
        sandbox_id: None,
        current_phase: SpecPhase::Explore,
        message: "waits for a sandbox".to_owned(),
    };
    round_trip(&answer);
    snapshot("spec-execution", answer);
}

#[test]
fn a_spec_is_shown() {
    let spec = Spec {
        id: "spec-1".parse().unwrap(),
        project_id: Some("prj-1".parse().unwrap()),
        title: "Health".to_owned(),
        description: "Know that it lives".to_owned(),
        flow: SpecFlow::Full,
        status: SpecStatus::Waiting,
        current_phase: SpecPhase::Requirements,
        version: 7,
        gates: vec![SpecPhase::Requirements, SpecPhase::Design],
        threshold: 0.7,
        archived: false,
        last_error: None,
        created_by: "ada".to_owned(),
        created_at: "2026-01-21T17:44:08Z".parse().unwrap(),
        updated_at: "2026-01-21T17:45:00Z".parse().unwrap(),
    };
    round_trip(&spec);
    snapshot("spec", spec);
}

#[test]
fn phases_move_a_spec_from_0_to_100_per_cent() {
    let progress =
        |of: fn(SpecPhase) -> u8| SpecPhase::ALL.iter().map(|phase| of(*phase)).collect::<Vec<_>>();
    assert_eq!(progress(SpecPhase::progress_started), [0, 16, 32, 48, 64, 80]);
    assert_eq!(progress(SpecPhase::progress_completed), [16, 32, 48, 64, 80, 100]);
}

fn round_trip<T>(thing: &T)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let value: Value = serde_json::to_value(thing).unwrap();
    assert_eq!(&serde_json::from_value::<T>(value).unwrap(), thing);
}
