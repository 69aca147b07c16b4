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
    let repository = Repository {
        url: "http://127.0.0.1:8080/git/prj-1.git".to_owned(),
        full_name: Some("acme/shop".to_owned()),
        branch_name: "feature/tkt-1-health-check".to_owned(),
        base_commit: "4f2c9d1e".to_owned(),
        author_name: Some("Ada".to_owned()),
        author_email: Some("ada@example.com".to_owned()),
        push_bytes_max: None,
    };
    LaunchSpec {
        project_id: Some("prj-1".parse().unwrap()),
        task_id: Some("task-1".parse().unwrap()),
        repository: Some(repository),
        agent: AgentLaunch { model: Some("claude-opus-4-5".to_owned()), ..AgentLaunch::default() },
        context: Some(TaskContext {
            task,
            ticket: Some(ticket),
            revision: None,
            markdown: None,
            extra: Map::new(),
        }),
        ..bare()
    }
}

fn bare() -> LaunchSpec {
    let door = Door::new("http://127.0.0.1:8080", Some("http://127.0.0.1:3128".to_owned()));
    LaunchSpec::new("sbx-1".parse().unwrap(), ProviderKind::Local, door, SandboxToken::new("omoi-sesame"))
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
        previous: None,
    };
    let launch = LaunchSpec {
        mode: ExecutionMode::Exploration,
        agent: AgentLaunch { kind: AgentKind::ClaudeCode, ..AgentLaunch::default() },
        limits: Limits::SPEC_PHASE,
        spec: Some(spec),
        resume: Some(Resume {
            session_id: "0198c0de-session".to_owned(),
            transcript_b64: Some("e30K".to_owned()),
        }),
        ..launch()
    };
    snapshot("launch-spec", launch.environment());
}

#[test]
fn the_context_of_a_task_round_trips() {
    let mut context = launch().context.unwrap();
    context.revision =
        Some(Revision { feedback: "no test".to_owned(), recommendations: vec![], iteration: 2 });
    context.markdown = Some("# Task".to_owned());
    context.extra.insert("validation_mode".to_owned(), json!(true));
    let value = serde_json::to_value(&context).unwrap();
    assert_eq!(serde_json::from_value::<TaskContext>(value.clone()).unwrap(), context);
    snapshot("launch-context", value);
}

#[test]
fn a_person_s_sandbox_finds_its_environment() {
    let launch = LaunchSpec { command: Some(vec!["make".to_owned(), "test".to_owned()]), ..bare() };
    snapshot("launch-command", launch.environment());
}

#[test]
fn a_launch_is_handed_over_as_json() {
    let spec = SpecLaunch {
        spec_id: "spec-1".parse().unwrap(),
        phase: SpecPhase::Design,
        title: "Health".to_owned(),
        description: String::new(),
        phase_context: Map::new(),
        previous: Some(json!({ "feature_name": "health" })),
    };
    let full = LaunchSpec {
        command: Some(vec!["make".to_owned()]),
        spool_path: Some("/omoi/spool".to_owned()),
        spec: Some(spec),
        resume: Some(Resume { session_id: "s".to_owned(), transcript_b64: None }),
        env: env([("RUST_LOG", "info")]).unwrap(),
        ..launch()
    };
    for launch in [full, bare()] {
        let text = serde_json::to_string(&launch).unwrap();
        assert_eq!(serde_json::from_str::<LaunchSpec>(&text).unwrap(), launch);
    }
    snapshot("launch", launch());
    let least = json!({
        "sandbox_id": "sbx-1", "provider": "local", "token": "omoi-sesame",
        "door": { "url": "http://127.0.0.1:8080", "model_url": "http://127.0.0.1:8080/model", "proxy_url": "http://127.0.0.1:3128" },
    });
    assert_eq!(serde_json::from_value::<LaunchSpec>(least).unwrap(), bare());
}

#[test]
fn a_door_elsewhere_is_reached_past_the_proxy() {
    for (url, direct) in [
        ("https://omoi.example:8443/", "127.0.0.1,localhost,omoi.example"),
        ("http://[fd00::1]:80", "127.0.0.1,localhost,fd00::1"),
        ("http://localhost:80", "127.0.0.1,localhost"),
    ] {
        let launch = LaunchSpec { door: Door::new(url, Some("http://proxy:1".to_owned())), ..bare() };
        assert_eq!(launch.environment()["NO_PROXY"], direct);
    }
    let launch = LaunchSpec { door: Door::new("https://omoi.example", None), ..bare() };
    assert!(!launch.environment().keys().any(|name| name.to_lowercase().contains("proxy")));
}

#[test]
fn the_mode_decides_what_nobody_has_decided() {
    let modes = [ExecutionMode::Exploration, ExecutionMode::Implementation, ExecutionMode::Validation];
    let decided = modes.map(|mode| {
        let launch = LaunchSpec { mode, ..launch() };
        launch.gates()
    });
    assert_eq!(decided, [Gates::NONE, Gates::ALL, Gates::ALL]);
    let told = LaunchSpec { gates: Some(Gates::NONE), ..launch() };
    assert_eq!(told.gates(), Gates::NONE);
}

#[test]
fn only_who_is_asked_to_iterates() {
    for (continuous, iterates) in [(None, false), (Some(false), false), (Some(true), true)] {
        let launch = LaunchSpec { continuous, ..launch() };
        assert_eq!(launch.is_continuous(), iterates);
        assert_eq!(launch.environment()["CONTINUOUS_MODE"], iterates.to_string());
    }
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
    let known = ["ANTHROPIC_API_KEY", "GIT_CONFIG_VALUE_3", "OMOIOS_API_KEY", "OMOI_TOKEN", "OPENAI_API_KEY"];
    assert_eq!(own.collect::<Vec<_>>(), known);
}

#[test]
fn a_worker_is_told_the_description_of_its_task_and_where_its_messages_are() {
    let environment = launch().environment();
    assert_eq!(environment["TASK_DESCRIPTION"], "Add GET /health");
    assert_eq!(environment["MESSAGE_POLL_URL"], "http://127.0.0.1:8080/api/v1/sandboxes/sbx-1/messages");
    assert!(!environment.contains_key("OMOI_ENV_LEFT_OUT"));
}

#[test]
fn what_the_environment_cannot_hold_is_left_out_and_named() {
    let mut launch = launch();
    let context = launch.context.as_mut().unwrap();
    context.task.description = "x".repeat(ENV_VALUE_BYTES_MAX + 1);
    context.ticket.as_mut().unwrap().description = "a\0b".to_owned();
    let environment = launch.environment();
    let left_out = ["TASK_DATA_BASE64", "TASK_DESCRIPTION", "TICKET_DESCRIPTION"];
    assert!(!left_out.iter().any(|name| environment.contains_key(*name)));
    assert_eq!(environment["OMOI_ENV_LEFT_OUT"], left_out.join(","));
    assert_eq!(launch.environment_left_out(), left_out);
}

#[test]
fn an_environment_beyond_what_the_kernel_takes_gives_up_its_longest_texts() {
    let long = "x".repeat(ENV_VALUE_BYTES_MAX);
    let names: Vec<String> = (0..20).map(|n| format!("LONG_{n:02}")).collect();
    let env: BTreeMap<_, _> = names.iter().map(|name| (name.clone(), long.clone())).collect();
    let launch = LaunchSpec { env: PlainEnv::try_from(env).unwrap(), ..launch() };
    let environment = launch.environment();
    let bytes: usize = environment.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    assert!(bytes < 1100 * 1024, "{bytes}");
    for name in ["SANDBOX_ID", "TASK_ID", "TASK_DESCRIPTION", "OMOI_TOKEN"] {
        assert!(environment.contains_key(name), "{name}");
    }
    let kept = names.iter().filter(|name| environment.contains_key(*name)).count();
    assert_eq!(kept + launch.environment_left_out().len(), names.len());
}
