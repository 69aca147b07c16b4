//! Precedence, refusals and secrets, through `load` as `main` calls it.

use std::{collections::BTreeSet, fs, path::Path};

use super::*;

/// A configuration from a file's text, environment variables and flags.
fn load_from(yaml: &str, env: &[(&str, &str)], flags: &[(&'static str, &str)]) -> Result<Resolved, Error> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("omoi.yaml");
    fs::write(&path, yaml).unwrap();
    let flags: Vec<_> =
        flags.iter().map(|&(key, value)| Flag { name: "--flag", key, value: value.to_owned() }).collect();
    load(&flags, environment(env), Some(&path))
}

fn environment(env: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    move |name| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

fn refusal(yaml: &str, env: &[(&str, &str)], flags: &[(&'static str, &str)]) -> String {
    let error = load_from(yaml, env, flags).unwrap_err();
    match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn entry(resolved: &Resolved, key: &str) -> Entry {
    resolved.entries.iter().find(|entry| entry.key == key).unwrap().clone()
}

#[test]
fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
    // Key, default, then what file, environment and flag say.
    for (key, default, file, env, flag) in [
        ("data_dir", "./omoi-data", "/file", "/env", "/flag"),
        ("server.listen", "127.0.0.1:18000", "[::1]:1", "host:2", "0.0.0.0:3"),
        ("server.role", "all", "api", "orchestrator", "all"),
        ("server.allowed_hosts", "", "a,b", "c", "d,e"),
        ("server.allowed_origins", "", "https://a", "https://b", "https://c"),
        ("server.public_url", "", "https://a", "https://b", "https://c"),
        ("server.shutdown_grace", "10s", "1m", "10ms", "1h"),
        ("database.url", "", "sqlite:a.db", "postgres://db/b", "sqlite:c.db"),
        ("database.pool_size", "8", "1", "2", "3"),
        ("limits.event_bytes_max", "1MiB", "2MiB", "3KiB", "4B"),
        ("limits.requests_per_second", "20000", "0", "1", "2"),
        ("retry.jitter", "0.25", "0.5", "0", "1"),
        ("model.anthropic_base_url", "https://api.anthropic.com", "http://a", "https://b/c", "http://d:1"),
        ("model.prices", "", "a=1/2/3/4", "b*=1/2/1/1", "*=0/0/0/0,c=1/2/1/0.5"),
        ("model.attempt_budget_usd", "20", "0.5", "0", "1.000000001"),
        ("log.format", "human", "json", "human", "json"),
        ("log.filter", "info", "warn", "omoi=debug,warn", "off"),
        ("store.sqlite_synchronous", "full", "normal", "full", "normal"),
    ] {
        let yaml = match key.split_once('.') {
            Some((section, key)) => format!("{section}: {{ {key}: {file:?} }}"),
            None => format!("{key}: {file:?}"),
        };
        let name = Key::named(key).unwrap().env[0];
        let found = |yaml: &str, env: &[_], flags: &[_]| {
            let Entry { value, origin, .. } = entry(&load_from(yaml, env, flags).unwrap(), key);
            (value, origin)
        };
        assert_eq!(found("", &[], &[]), (default.to_owned(), Origin::Default), "{key}");
        let (value, origin) = found(&yaml, &[], &[]);
        assert_eq!(value, file, "{key}");
        assert!(matches!(origin, Origin::File(path) if path.ends_with("omoi.yaml")), "{key}");
        assert_eq!(found(&yaml, &[(name, env)], &[]), (env.to_owned(), Origin::Env(name)), "{key}");
        let flagged = found(&yaml, &[(name, env)], &[(key, flag)]);
        assert_eq!(flagged, (flag.to_owned(), Origin::Flag("--flag")), "{key}");
    }
}

#[test]
fn our_own_variable_beats_the_well_known_one_and_an_empty_one_is_not_set() {
    let both = [("OMOI_LOG", "warn"), ("RUST_LOG", "debug")];
    assert_eq!(load_from("", &both, &[]).unwrap().config.log.filter, "warn");
    let emptied = [("OMOI_LOG", ""), ("RUST_LOG", "debug")];
    assert_eq!(load_from("", &emptied, &[]).unwrap().config.log.filter, "debug");
}

#[test]
fn variables_of_the_earlier_system_set_the_keys_that_mean_the_same() {
    for (variable, written, key, value) in [
        ("ORCHESTRATOR_ENABLED", "false", "server.role", "api"),
        ("ORCHESTRATOR_ENABLED", "True", "server.role", "all"),
        ("DAYTONA_SANDBOX_EXECUTION", "false", "dispatch.autonomous", "false"),
        ("DAYTONA_SANDBOX_EXECUTION", "1", "dispatch.autonomous", "true"),
        ("DAYTONA_SANDBOX_MEMORY_GB", "6", "sandbox.memory_gb", "6"),
        ("SANDBOX_CPU", "3", "sandbox.cpu", "3"),
        ("IDLE_THRESHOLD_MINUTES", "30", "supervise.idle_after", "30m"),
        ("IDLE_CHECK_INTERVAL_SECONDS", "45", "supervise.period", "45s"),
        ("IDLE_DETECTION_ENABLED", "False", "supervise.enabled", "false"),
        ("DATABASE_COMMAND_TIMEOUT", "20", "database.statement_timeout", "20s"),
        ("INTEGRATIONS_GITHUB_TOKEN", "hidden", "git.token", "***"),
    ] {
        let resolved = load_from("", &[(variable, written)], &[]).unwrap();
        let Entry { value: found, origin, .. } = entry(&resolved, key);
        assert_eq!((found.as_str(), origin), (value, Origin::Env(variable)), "{variable}");
        assert_eq!(resolved.ineffective, [], "{variable}");
    }
    let both = [("OMOI_ROLE", "orchestrator"), ("ORCHESTRATOR_ENABLED", "false")];
    assert_eq!(entry(&load_from("", &both, &[]).unwrap(), "server.role").value, "orchestrator");
    assert_eq!(
        refusal("", &[("ORCHESTRATOR_ENABLED", "maybe")], &[]),
        r#"server.role (from ORCHESTRATOR_ENABLED): "maybe" is not true or false"#
    );
    let refusal = refusal("", &[("IDLE_THRESHOLD_MINUTES", "soon")], &[]);
    assert!(refusal.ends_with(r#""soon" is not a whole number of minutes"#), "{refusal}");
}

#[test]
fn a_setting_without_effect_is_named_once_with_what_to_use_and_without_its_value() {
    let env = [
        ("DAYTONA_API_KEY", "hidden"),
        ("REDIS_URL", "redis://:hidden@localhost:16379"),
        ("MESSAGE_POLL_URL", "https://hidden.example/sandbox/messages"),
        ("SANDBOX_SNAPSHOT", "hidden"),
        ("LLM_MODEL", ""),
    ];
    let said = load_from("", &env, &[]).unwrap().ineffective;
    let names: Vec<_> = said.iter().map(|setting| setting.name).collect();
    assert_eq!(names, ["DAYTONA_API_KEY", "REDIS_URL", "MESSAGE_POLL_URL", "SANDBOX_SNAPSHOT"]);
    for setting in &said {
        assert!(!format!("{setting} {setting:?}").contains("hidden"), "{setting}");
    }
    assert_eq!(
        said[2].to_string(),
        "MESSAGE_POLL_URL has no effect: the server gives each worker this address when it starts it; \
         set OMOI_PUBLIC_URL to the address of this server"
    );
    let of_file = load_from("sandbox: { snapshot: ready }", &[], &[]).unwrap().ineffective;
    assert_eq!(of_file.iter().map(|setting| setting.name).collect::<Vec<_>>(), ["sandbox.snapshot"]);
    assert_eq!(load_from("", &[], &[]).unwrap().ineffective, []);
}

#[test]
fn the_file_may_leave_values_out_and_write_lists_and_numbers_as_yaml_does() {
    let yaml = "
server:
  allowed_hosts: [a.example, b.example]
  shutdown_grace: 90
  listen:
database:
limits: { request_burst: 7 }
";
    let config = load_from(yaml, &[], &[]).unwrap().config;
    assert_eq!(config.server.allowed_hosts, ["a.example", "b.example"]);
    assert_eq!(config.server.shutdown_grace.as_secs(), 90);
    assert_eq!(config.server.listen.port, 18000);
    assert_eq!(config.limits.request_burst, 7);
}

#[test]
fn a_bad_value_names_its_key_its_origin_and_what_is_accepted() {
    assert_eq!(
        refusal("", &[("OMOI_LISTEN", "abc")], &[]),
        r#"server.listen (from OMOI_LISTEN): "abc" is not HOST:PORT"#
    );
    assert_eq!(
        refusal("", &[], &[("server.role", "both")]),
        r#"server.role (from --flag): "both" is not all, api or orchestrator"#
    );
    for (yaml, text) in [
        ("lease: { duration: 0s }", r#"lease.duration (from "#),
        ("lease: { duration: 0s }", r#"omoi.yaml): "0s" is not a duration above zero"#),
        ("retry: { jitter: 1.5 }", r#""1.5" is not a number from 0 to 1"#),
        ("database: { pool_size: [1, 2] }", r#""[1,2]" is not a whole number from 1"#),
        ("data_dir: { a: b }", r"data_dir (from "),
        ("sandbox: { provider: docker }", "sandbox.provider (from "),
        ("sandbox: { provider: docker }", r#""docker" is not a provider that sandboxes can be made at"#),
        ("sandbox: { provider: external }", "of which there is one: local"),
        ("sandbox: { memory_gb: 64 }", r#"omoi.yaml): "64" is not a whole number of GiB from 1 to 8"#),
        ("sandbox: { deny_layers: [seccomp, landlok] }", r#""seccomp,landlok" is not a list of layers"#),
        ("data_dir: ~/x", r#""~/x" is not a path (and ~/ needs HOME to be set)"#),
        ("log: { filter: 'a=b=c' }", r#""a=b=c" is not a log filter"#),
        ("server.role: all\nserver: { role: all }", "omoi.yaml): written twice"),
        ("server: 5", "omoi.yaml): a section takes keys below it, not a value"),
        ("just text", "omoi.yaml is not a map of sections"),
        ("server: {", "omoi.yaml is not YAML: "),
        ("log: { format: json }\nlog: { filter: info }", "omoi.yaml is not YAML: duplicate mapping key: log"),
    ] {
        let refusal = refusal(yaml, &[], &[]);
        assert!(refusal.contains(text), "{yaml}: {refusal}");
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    for (yaml, unknown, nearest) in [
        ("server: { lisen: a }", "server.lisen", "server.listen"),
        ("sever: { listen: a }", "sever.listen", "server.listen"),
        ("datadir: a", "datadir", "data_dir"),
        ("data_dirs:", "data_dirs", "data_dir"),
    ] {
        let refusal = refusal(yaml, &[], &[]);
        assert!(refusal.starts_with(&format!("{unknown} (from ")), "{refusal}");
        assert!(refusal.ends_with(&format!("no such key; the nearest is {nearest}")), "{refusal}");
    }
    assert_eq!(
        refusal("", &[], &[("server.rule", "all")]),
        "server.rule (from --flag): no such key; the nearest is server.role"
    );
}

#[test]
fn values_that_contradict_each_other_are_refused_with_both_keys() {
    assert_eq!(
        refusal("", &[("OMOI_LIMITS_EVENT_BYTES_MAX", "16MiB")], &[]),
        "limits.event_bytes_max is 16MiB (from OMOI_LIMITS_EVENT_BYTES_MAX), but may not exceed \
         limits.body_bytes_max, which is 8MiB (from the default)"
    );
    for (yaml, key, other) in [
        ("limits: { message_bytes_max: 9MiB }", "limits.message_bytes_max", "limits.body_bytes_max"),
        ("limits: { connections_max: 100 }", "limits.viewers_max", "limits.connections_max"),
        ("limits: { request_timeout: 5s }", "message.long_poll_max", "limits.request_timeout"),
        ("message: { expire_after: 30s }", "message.offer_again_after", "message.expire_after"),
        ("retry: { base: 2m }", "retry.base", "retry.cap"),
        ("agent: { missed_failed: 1 }", "agent.missed_degraded", "agent.missed_failed"),
        ("lease: { duration: 30s }", "agent.heartbeat_ttl_idle", "lease.duration"),
        ("agent: { heartbeat_ttl_running: 2m }", "agent.heartbeat_ttl_running", "lease.duration"),
        ("model: { first_byte_timeout: 2h }", "model.first_byte_timeout", "model.call_timeout"),
        ("model: { chunk_timeout: 2h }", "model.chunk_timeout", "model.call_timeout"),
        ("model: { calls_max: 1 }", "model.sandbox_calls_max", "model.calls_max"),
    ] {
        let refusal = refusal(yaml, &[], &[]);
        assert!(refusal.starts_with(key) && refusal.contains(other), "{refusal}");
    }
}

#[test]
fn a_secret_shows_nowhere() {
    let url = [("DATABASE_URL", "postgres://omoi:hidden@db/omoi")];
    let resolved = load_from("", &url, &[]).unwrap();
    let shown = entry(&resolved, "database.url");
    assert_eq!((shown.value.as_str(), shown.secret), ("postgres://omoi:***@db/omoi", true));
    assert!(!format!("{resolved:?}").contains("hidden"));
    let keys = [("ANTHROPIC_API_KEY", "sk-hidden"), ("OPENAI_API_KEY", "hidden-2")];
    let resolved = load_from("", &keys, &[]).unwrap();
    let shown = entry(&resolved, "model.anthropic_api_key");
    assert_eq!((shown.value.as_str(), shown.secret), ("***", true));
    assert_eq!(resolved.config.model.anthropic_api_key.expose(), Some("sk-hidden"));
    assert!(!format!("{resolved:?}").contains("hidden"));

    for (yaml, env) in [
        ("", [("DATABASE_URL", "mysql://omoi:hidden@db/omoi")].as_slice()),
        ("database: { url: [hidden] }", &[]),
        ("", &[("OPENAI_API_KEY", "hidden key")]),
        ("", &[("ANTHROPIC_BASE_URL", "https://user:hidden@proxy")]),
        ("server: { allowed_origins: ['https://a:hidden@b', [c]] }", &[]),
        ("database: { url: 'hidden }", &[]),
        ("database:\n  url: hidden: x\n", &[]),
        ("database:\n  url: hidden\n bad indent", &[]),
    ] {
        let refusal = refusal(yaml, env, &[]);
        assert!(!refusal.contains("hidden"), "{refusal}");
    }
}

#[test]
fn the_file_is_the_flag_s_or_the_variable_s_or_the_one_in_the_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, filter: &str| {
        let path = dir.path().join(name);
        fs::write(&path, format!("log: {{ filter: {filter} }}")).unwrap();
        path
    };
    let (flag, variable, _) =
        (write("flag.yaml", "error"), write("env.yaml", "warn"), write("omoi.yaml", "debug"));
    let data_dir = ("OMOI_DATA_DIR", dir.path().to_str().unwrap());
    let named = ("OMOI_CONFIG", variable.to_str().unwrap());
    let filter = |env: &[_], file| load(&[], environment(env), file).unwrap().config.log.filter;

    assert_eq!(filter(&[data_dir, named], Some(&flag)), "error");
    assert_eq!(filter(&[data_dir, named], None), "warn");
    assert_eq!(filter(&[data_dir], None), "debug");
    assert_eq!(filter(&[("HOME", "/nonexistent")], None), "info");
    let missing = load(&[], |_| None, Some(Path::new("/nonexistent/omoi.yaml"))).unwrap_err();
    assert_eq!(missing.to_string(), "cannot read the configuration file /nonexistent/omoi.yaml");
}

#[test]
fn the_data_directory_is_below_home() {
    let resolved = load(&[], environment(&[("HOME", "/nonexistent/")]), None).unwrap();
    assert_eq!(resolved.config.data_dir, Path::new("/nonexistent/.local/share/omoi"));
    let env = [("HOME", "/nonexistent"), ("OMOI_DATA_DIR", "~/x")];
    assert_eq!(load(&[], environment(&env), None).unwrap().config.data_dir, Path::new("/nonexistent/x"));
}

#[test]
fn the_default_file_says_the_defaults() {
    let values = |resolved: &Resolved| -> Vec<_> {
        resolved.entries.iter().map(|entry| (entry.key, entry.value.clone())).collect()
    };
    let home = [("HOME", "/nonexistent")];
    let defaults = load(&[], environment(&home), None).unwrap();

    let file = Config::default_file();
    let as_written = load_from(&file, &home, &[]).unwrap();
    assert!(as_written.entries.iter().all(|entry| entry.origin == Origin::Default));

    let lines = file.lines().map(|line| match line.split_once('#') {
        Some((indent, key)) if !key.starts_with(' ') => format!("{indent}{key}\n"),
        _ => format!("{line}\n"),
    });
    let uncommented = load_from(&lines.collect::<String>(), &home, &[]).unwrap();
    assert!(uncommented.entries.iter().all(|entry| matches!(entry.origin, Origin::File(_))));
    assert_eq!(values(&uncommented), values(&defaults));
    let built_in = Config { data_dir: uncommented.config.data_dir.clone(), ..Config::default() };
    assert_eq!(format!("{built_in:?}"), format!("{:?}", uncommented.config));
}

#[test]
fn the_table_is_whole() {
    let mut names = BTreeSet::new();
    let mut variables = BTreeSet::from(["OMOI_CONFIG", "HOME"]);
    let config = load(&[], |_| None, None).unwrap();
    for key in KEYS {
        assert!(names.insert(key.name), "{} is listed twice", key.name);
        assert!(key.doc.iter().all(|line| line.len() > 5 && line.starts_with(' ')), "{}", key.name);
        assert!(key.doc.last().unwrap().ends_with('.'), "{}", key.name);
        assert!(key.env[0].starts_with("OMOI_"), "{}", key.name);
        for variable in key.env {
            assert!(variables.insert(variable), "{variable} sets two keys");
        }
        if key.name != "data_dir" {
            assert_eq!(entry(&config, key.name).value, key.default, "{} is shown as it is written", key.name);
        }
    }
    assert_eq!(config.entries.len(), KEYS.len());
}
