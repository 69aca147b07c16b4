//! What a worker finds in its environment, and what never gets there.

use std::collections::BTreeMap;

use omoi_protocol::{Priority, ProviderKind, SpecPhase, TicketType, launch::*};
use serde_json::{Map, json};

use crate::snapshot;

fn launch() -> LaunchSpec {
    let ticket = TicketBrief {
        id: "tkt-1".parse().unwrap(),
        ticket_type: TicketType::Feature,
        title: "Health check".to_owned(),
        description: "Answer 200 while alive".to_owned(),
        priority: Priority::High,
        context: Map::new(),
    };
    let task = TaskBrief {
        id: "task-1".parse().unwrap(),
        task_type: "implement_feature".to_owned(),
        title: "Add the route".to_owned(),
        description: "Add GET /health".to_owned(),
        priority: Priority::High,
        phase_id: Some("PHASE_IMPLEMENTATION".to_owned()),
    };
    LaunchSpec {
        sandbox_id: "sbx-1".parse().unwrap(),
        project_id: "prj-1".parse().unwrap(),
        task_id: Some("task-1".parse().unwrap()),
        provider: ProviderKind::Local,
        snapshot: None,
        image: None,
        resources: Resources::default(),
        repository: Repository {
            url: "http://door/git/prj-1".to_owned(),
            full_name: Some("acme/shop".to_owned()),
            branch_name: "feature/tkt-1-health-check".to_owned(),
            base_commit: "4f2c9d1e".to_owned(),
            workspace_path: WORKSPACE_PATH.to_owned(),
        },
        callback_url: "http://door".to_owned(),
        token: SandboxToken::new("omoi-sesame"),
        mode: ExecutionMode::Implementation,
        agent: AgentLaunch { model: Some("claude-opus-4-5".to_owned()), ..AgentLaunch::default() },
        limits: Limits::default(),
        continuous: None,
        gates: None,
        spec: None,
        resume: None,
        labels: BTreeMap::new(),
        env: PlainEnv::default(),
        context: TaskContext {
            task,
            ticket: Some(ticket),
            revision: None,
            markdown: None,
            extra: Map::new(),
        },
    }
}

fn env<const N: usize>(vars: [(&str, &str); N]) -> Result<PlainEnv, EnvError> {
    PlainEnv::try_from(BTreeMap::from(vars.map(|(name, value)| (name.to_owned(), value.to_owned()))))
}

#[test]
fn a_task_finds_its_environment() {
    let launch =
        LaunchSpec { env: env([("RUST_LOG", "info"), ("SANDBOX_ID", "another")]).unwrap(), ..launch() };
    snapshot("launch-task", launch.environment());
}

#[test]
fn a_phase_of_a_spec_finds_its_environment() {
    let spec = SpecLaunch {
        spec_id: "spec-1".parse().unwrap(),
        phase: SpecPhase::Design,
        title: "Health".to_owned(),
        description: "Know that it lives".to_owned(),
        phase_context: Map::from_iter([("explore".to_owned(), json!({ "project_type": "service" }))]),
    };
    let launch = LaunchSpec {
        mode: ExecutionMode::Exploration,
        agent: AgentLaunch { kind: AgentKind::ClaudeCode, ..AgentLaunch::default() },
        limits: Limits::SPEC_PHASE,
        spec: Some(spec),
        resume: Some(Resume {
            session_id: "0198c0de-session".to_owned(),
            transcript: Some(b"{}\n".to_vec()),
        }),
        ..launch()
    };
    snapshot("launch-spec", launch.environment());
}

#[test]
fn the_context_of_a_task_round_trips() {
    let mut context = launch().context;
    context.revision =
        Some(Revision { feedback: "no test".to_owned(), recommendations: vec![], iteration: 2 });
    context.markdown = Some("# Task".to_owned());
    context.extra.insert("validation_mode".to_owned(), json!(true));
    let value = serde_json::to_value(&context).unwrap();
    assert_eq!(serde_json::from_value::<TaskContext>(value.clone()).unwrap(), context);
    snapshot("launch-context", value);
}

#[test]
fn the_mode_decides_what_nobody_has_decided() {
    let modes = [ExecutionMode::Exploration, ExecutionMode::Implementation, ExecutionMode::Validation];
    let decided = modes.map(|mode| {
        let launch = LaunchSpec { mode, ..launch() };
        (launch.is_continuous(), launch.gates())
    });
    assert_eq!(decided, [(false, Gates::NONE), (true, Gates::ALL), (true, Gates::ALL)]);
    let told = LaunchSpec { continuous: Some(false), gates: Some(Gates::NONE), ..launch() };
    assert_eq!((told.is_continuous(), told.gates()), (false, Gates::NONE));
}

#[test]
fn resources_keep_within_the_cap() {
    assert_eq!(Resources::default(), Resources { memory_gb: 4, cpu: 2, disk_gb: 8 });
    assert_eq!(
        Resources { memory_gb: 64, cpu: 1, disk_gb: 10 }.capped(),
        Resources { memory_gb: 8, cpu: 1, disk_gb: 10 }
    );
    assert_eq!(
        serde_json::from_str::<Resources>(r#"{"cpu":3}"#).unwrap(),
        Resources { cpu: 3, ..Resources::default() }
    );
}

#[test]
fn the_token_does_not_show_in_logs() {
    let shown = format!("{:?}", launch());
    assert!(shown.contains("SandboxToken(hidden)") && !shown.contains("sesame"));
}

#[test]
fn secrets_do_not_enter_a_sandbox() {
    for name in [
        "ANTHROPIC_API_KEY",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "gh_token",
        "DATABASE_URL",
        "DB_PASSWORD",
        "OMOI_TOKEN",
    ] {
        assert_eq!(env([(name, "x")]), Err(EnvError::Secret(name.to_owned())));
    }
    for name in ["", "1X", "A-B", "A B", "A=B", "Ä"] {
        assert_eq!(env([(name, "x")]), Err(EnvError::Name(name.to_owned())));
    }
    assert_eq!(env([("X", "a\0b")]), Err(EnvError::Value("X".to_owned())));
    assert!(serde_json::from_str::<PlainEnv>(r#"{"GITHUB_TOKEN":"x"}"#).is_err());
    let own = launch()
        .environment()
        .into_iter()
        .filter(|(_, value)| value.contains("sesame"))
        .map(|(name, _)| name);
    assert_eq!(own.collect::<Vec<_>>(), ["OMOIOS_API_KEY", "OMOI_TOKEN"]);
}

#[test]
fn what_the_environment_cannot_hold_is_left_out() {
    let mut launch = launch();
    launch.context.task.description = "x".repeat(ENV_VALUE_BYTES_MAX);
    launch.context.ticket.as_mut().unwrap().description = "a\0b".to_owned();
    let environment = launch.environment();
    assert!(!environment.contains_key("TASK_DATA_BASE64") && !environment.contains_key("TICKET_DESCRIPTION"));
    assert!(environment.values().all(|value| value.len() <= ENV_VALUE_BYTES_MAX));
}
