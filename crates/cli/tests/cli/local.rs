//! Commands that need no server: help, settings, tokens, the database, the doctor.

use std::os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::{
    program::{Dir, finish, run},
    server::Running,
};

const COMMANDS: &[&str] = &[
    "serve",
    "run",
    "demo",
    "config",
    "config show",
    "config default",
    "doctor",
    "token",
    "token create",
    "token list",
    "token revoke",
    "db",
    "db migrate",
    "db check",
    "db backup",
    "audit",
    "audit verify",
    "audit list",
    "audit export",
    "audit accept",
    "project",
    "project add",
    "project create",
    "project list",
    "project show",
    "project remove",
    "ticket",
    "ticket create",
    "ticket list",
    "ticket show",
    "task",
    "task create",
    "task list",
    "task show",
    "task cancel",
    "task retry",
    "sandbox",
    "sandbox create",
    "sandbox exec",
    "sandbox terminate",
    "sandbox list",
    "sandbox show",
    "sandbox events",
    "sandbox trajectory",
    "sandbox logs",
    "sandbox send",
    "sandbox compare",
    "sandbox prune",
    "sandbox rescue",
    "sandbox discard",
    "sandbox attach",
    "guardian",
    "guardian show",
    "guardian nudge",
    "guardian approve",
    "guardian dismiss",
    "guardian policy",
    "guardian policy show",
    "guardian policy set",
    "guardian policy reset",
    "guardian policy try",
    "supervise",
    "supervise replay",
    "supervise policy",
    "image",
    "image import",
    "image list",
    "image remove",
    "agent",
    "agent list",
    "whoami",
    "completions",
    "openapi",
];

#[test]
fn every_command_has_help() {
    let dir = Dir::new();
    for command in COMMANDS.iter().copied().chain([""]) {
        let args: Vec<_> = command.split_whitespace().chain(["--help"]).collect();
        let said = finish(dir.omoi(&args).env("OMOI_TOKEN", "omoi_op_hidden")).ok();
        assert!(said.contains("Usage: omoi"), "{command}: {said}");
        assert!(!said.contains("hidden"), "{command}: {said}");
    }
    let top = run(&dir, &["--help"]).ok();
    for word in ["OMOI_URL", "OMOI_TOKEN", "Exit codes", "omoi serve"] {
        assert!(top.contains(word), "{word}");
    }
    assert!(!top.contains("openapi"), "a hidden command shows");
    assert_eq!(run(&dir, &["dance"]).code, 2);
    assert_eq!(run(&dir, &["task", "create", "no project"]).code, 2);
}

#[test]
fn completions_and_the_api_are_printed() {
    let dir = Dir::new();
    assert!(run(&dir, &["completions", "bash"]).ok().contains("_omoi"));
    let api: Value = serde_json::from_str(&run(&dir, &["openapi"]).ok()).unwrap();
    assert!(api["paths"]["/api/v1/tasks"].is_object());
}

#[test]
fn each_setting_is_shown_with_where_it_came_from() {
    let dir = Dir::new();
    dir.write("omoi.yaml", "server: { listen: 127.0.0.1:1111 }\nlease: { duration: 5m }\n");
    let mut shown = dir.omoi(&["config", "show", "--json", "--data-dir", "."]);
    let shown = finish(shown.env("OMOI_LISTEN", "127.0.0.1:2222")).json();
    let entry = |key: &str| {
        let found = shown.as_array().unwrap().iter().find(|entry| entry["key"] == key).unwrap();
        (found["value"].as_str().unwrap().to_owned(), found["origin"].as_str().unwrap().to_owned())
    };
    assert_eq!(entry("data_dir"), (".".to_owned(), "--data-dir".to_owned()));
    assert_eq!(entry("server.listen"), ("127.0.0.1:2222".to_owned(), "OMOI_LISTEN".to_owned()));
    assert_eq!(entry("lease.duration"), ("5m".to_owned(), "./omoi.yaml".to_owned()));
    assert_eq!(entry("server.role"), ("all".to_owned(), "default".to_owned()));
    let table = run(&dir, &["config", "show", "--data-dir", "."]).ok();
    assert!(table.lines().next().unwrap().split_whitespace().eq(["key", "value", "origin"]), "{table}");
    assert!(run(&dir, &["config", "default"]).ok().contains("#listen: 127.0.0.1:18000"));
    let keys = run(&dir, &["config", "default", "--json"]).json();
    let listen = keys.as_array().unwrap().iter().find(|key| key["key"] == "server.listen").unwrap();
    assert_eq!(
        (&listen["default"], &listen["environment"]),
        (&json!("127.0.0.1:18000"), &json!(["OMOI_LISTEN"]))
    );
}

#[test]
fn a_variable_that_is_no_text_is_named_and_stops_the_start() {
    let dir = Dir::new();
    let no_text = std::ffi::OsStr::from_bytes(b"127.0.0.1:\xff");
    for name in ["OMOI_LISTEN", "OMOI_URL", "OMOI_OF_TOMORROW", "ANTHROPIC_API_KEY"] {
        let said = finish(dir.omoi(&["config", "show", "--data-dir", "data"]).env(name, no_text));
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{name}: {}", said.stderr);
        assert!(said.stderr.contains(name), "{name}: {}", said.stderr);
    }
    finish(dir.omoi(&["config", "show", "--data-dir", "data"]).env("SOMEBODY_ELSES", no_text)).ok();
}

#[test]
fn a_bad_setting_is_named_and_stops_the_start() {
    let dir = Dir::new();
    for args in [["serve", "--listen", "nonsense"], ["serve", "--database-url", "mysql://user:hidden@db"]] {
        let said = run(&dir, &args);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{}", said.stderr);
        assert!(said.stderr.starts_with("error: ") && said.stderr.contains("hint: "), "{}", said.stderr);
        assert!(said.stderr.contains(args[1]) && !said.stderr.contains("hidden"), "{}", said.stderr);
    }
    dir.write("omoi.yaml", "server: { rolle: api }\n");
    let said = run(&dir, &["config", "show", "--data-dir", "."]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("server.rolle") && said.stderr.contains("server.role"), "{}", said.stderr);
}

#[test]
fn a_data_directory_or_file_that_cannot_be_opened_is_not_called_a_setting() {
    let dir = Dir::new();
    dir.write("data", "a file where the directory should be");
    std::fs::create_dir(dir.path().join("omoi.yaml")).unwrap();
    for (args, error, hint) in [
        (
            ["serve", "--data-dir", "data"],
            "cannot open the data directory data (from --data-dir)",
            "--data-dir",
        ),
        (["serve", "--config", "omoi.yaml"], "cannot read the configuration file omoi.yaml", "--config"),
    ] {
        let said = run(&dir, &args);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{}", said.stderr);
        assert!(said.stderr.starts_with(&format!("error: {error}: ")), "{}", said.stderr);
        let said_hint = said.stderr.lines().find(|line| line.starts_with("hint: ")).unwrap();
        assert!(said_hint.contains(hint) && !said_hint.contains("config default"), "{said_hint}");
    }
}

#[test]
fn a_token_is_printed_alone_and_never_twice() {
    let dir = Dir::new();
    let make = |more: &[&str]| {
        let args: Vec<_> = ["token", "create", "--data-dir", "data", "--role", "operator"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        let said = run(&dir, &args).ok();
        let token = said.strip_suffix('\n').unwrap().to_owned();
        assert!(token.starts_with("omoi_op_") && !token.contains(char::is_whitespace), "{said}");
        token
    };
    let (first, second) = (make(&[]), make(&["--name", "laptop", "--expires-in", "30d"]));
    assert_ne!(first, second);
    assert!(
        dir.path().join("data/omoi.db").is_file(),
        "the command line and the server disagree about the file"
    );
    let listed = run(&dir, &["token", "list", "--data-dir", "data", "--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    let laptop = listed.as_array().unwrap().iter().find(|token| token["name"] == "laptop").unwrap();
    assert!(laptop["expires_at"].is_string() && !listed.to_string().contains(&second));
    let id = laptop["id"].as_str().unwrap();
    assert!(run(&dir, &["token", "revoke", id, "--data-dir", "data"]).ok().contains(id));
    assert!(run(&dir, &["token", "list", "--data-dir", "data"]).ok().contains("revoked"));
    assert_eq!(run(&dir, &["token", "revoke", "tok-none", "--data-dir", "data"]).code, 3);
    assert_eq!(run(&dir, &["token", "create", "--role", "king"]).code, 2);
    assert_eq!(run(&dir, &["token", "create", "--role", "admin", "--expires-in", "soon"]).code, 2);
}

#[test]
fn the_database_is_migrated_checked_and_copied() {
    let dir = Dir::new();
    for verb in
        [&["db", "check"] as &[_], &["db", "backup", "x.db"], &["audit", "verify"], &["token", "list"]]
    {
        let args: Vec<_> = verb.iter().chain(&["--data-dir", "typo"]).copied().collect();
        let said = run(&dir, &args);
        assert_eq!(said.code, 3, "{verb:?}: {}", said.stderr);
        assert!(!dir.path().join("typo").exists() && !dir.path().join("x.db").exists());
    }
    let migrated = run(&dir, &["db", "migrate", "--data-dir", "data", "--json"]).json();
    assert!(migrated["schema"].as_i64().unwrap() >= 1);
    run(&dir, &["token", "create", "--role", "viewer", "--data-dir", "data"]).ok();
    assert!(run(&dir, &["db", "check", "--data-dir", "data"]).ok().contains("no damage"));
    run(&dir, &["db", "backup", "copy.db", "--data-dir", "data"]).ok();
    let copied = run(&dir, &["token", "list", "--database-url", "sqlite:copy.db", "--json"]).json();
    assert_eq!(copied.as_array().unwrap().len(), 1);
    let mode = std::fs::metadata(dir.path().join("copy.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "a copy is for its owner alone, as the data directory is");
    for to in ["copy.db", "nowhere/copy.db"] {
        let refused = run(&dir, &["db", "backup", to, "--data-dir", "data"]);
        assert_eq!(refused.code, 1);
        assert!(refused.stderr.contains(to) && refused.stderr.contains("name a"), "{}", refused.stderr);
        assert!(!refused.stderr.contains("omoi doctor"), "{}", refused.stderr);
    }
    let verdict = run(&dir, &["audit", "verify", "--data-dir", "data", "--json"]).json();
    assert_eq!(verdict, json!({ "entries": 1, "broken_at": null }));
}

#[test]
fn damage_is_told_with_what_to_do_however_bad_it_is() {
    let dir = Dir::new();
    run(&dir, &["db", "migrate", "--data-dir", "data"]).ok();
    let file = dir.path().join("data/omoi.db");
    let conn = rusqlite::Connection::open(&file).unwrap();
    conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(conn);
    let sound = std::fs::read(&file).unwrap();
    let no_database = b"not a database at all ".repeat(500);
    // Past the first page, which says what kind of file it is.
    let mut holed = sound.clone();
    holed[2048..].fill(0xff);
    let mut no_schema = sound.clone();
    no_schema[100..2048].fill(0xff);
    for (bytes, what) in [(&no_database, "no database"), (&holed, "holed"), (&no_schema, "no schema")] {
        std::fs::write(&file, bytes).unwrap();
        let said = run(&dir, &["db", "check", "--data-dir", "data"]);
        assert_eq!(said.code, 1, "{what}: {}", said.stderr);
        assert!(!said.stdout.is_empty(), "{what}");
        for words in ["data/omoi.db is damaged in", "hint: stop the server", "restore the last backup"] {
            assert!(said.stderr.contains(words), "{what}: {}", said.stderr);
        }
        let said = run(&dir, &["db", "check", "--data-dir", "data", "--json"]);
        let told: Value = serde_json::from_str(&said.stdout).unwrap();
        assert!(said.code == 1 && told["damage"][0].is_string(), "{what}: {told}");
    }
    std::fs::write(&file, &no_database).unwrap();
    let said = run(&dir, &["serve", "--data-dir", "data", "--listen", "127.0.0.1:0"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("data/omoi.db cannot be opened"), "{}", said.stderr);
}

/// `omoi db check | head -1 || restore` is to restore.
#[test]
fn a_bad_verdict_is_one_also_when_nobody_reads_on() {
    let dir = Dir::new();
    run(&dir, &["token", "create", "--role", "viewer", "--data-dir", "data"]).ok();
    let file = dir.path().join("data/omoi.db");
    let database = rusqlite::Connection::open(&file).unwrap();
    assert_eq!(database.execute("UPDATE audit SET actor = 'somebody else' WHERE n = 1", ()).unwrap(), 1);
    drop(database);
    let unread = |verb: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        finish(dir.omoi(&[verb, &["--data-dir", "data"]].concat()).stdout(writer))
    };
    let said = unread(&["audit", "verify"]);
    assert!(said.code == 1 && said.stderr.contains("changed at entry 1"), "{said:?}");
    std::fs::write(&file, "not a database at all").unwrap();
    for (verb, words) in
        [(&["db", "check"] as &[_], "is damaged in"), (&["doctor"], "omoi.db is no database")]
    {
        let said = unread(verb);
        assert!(said.code == 1 && said.stderr.contains(words), "{verb:?}: {said:?}");
    }
}

#[test]
fn an_audit_trail_that_was_cut_off_is_told_in_plain_words_with_what_to_do() {
    let dir = Dir::new();
    let omoi = |verb: &[&str]| run(&dir, &[verb, &["--data-dir", "data"]].concat());
    for _ in 0..3 {
        omoi(&["token", "create", "--role", "viewer"]).ok();
    }
    assert!(omoi(&["audit", "verify"]).ok().contains("Audit log verified: 3 entries, unaltered"));
    assert_eq!(omoi(&["audit", "export"]).ok().lines().count(), 3);
    std::fs::write(dir.path().join("head"), omoi(&["audit", "export", "--head"]).ok()).unwrap();
    omoi(&["audit", "verify", "--head", "head"]).ok();
    rusqlite::Connection::open(dir.path().join("data/omoi.db"))
        .unwrap()
        .execute("DELETE FROM audit WHERE n > 1", ())
        .unwrap();
    let said = omoi(&["audit", "verify"]);
    assert!(
        said.code == 1 && said.stdout.contains("cut off: 1 entries, but entry 3 was recorded at"),
        "{said:?}"
    );
    assert!(said.stderr.contains("omoi audit accept") && said.stderr.contains("backup"), "{said:?}");
    omoi(&["audit", "accept"]).ok();
    omoi(&["audit", "verify"]).ok();
    let said = omoi(&["audit", "verify", "--head", "head"]);
    assert!(said.code == 1 && said.stdout.contains("cut off: 2 entries, but entry 3"), "{said:?}");
}

/// A migration cannot be taken back, so nobody runs one by looking.
#[test]
fn who_only_looks_changes_no_schema() {
    let dir = Dir::new();
    let newest =
        run(&dir, &["db", "migrate", "--data-dir", "data", "--json"]).json()["schema"].as_i64().unwrap();
    let database = rusqlite::Connection::open(dir.path().join("data/omoi.db")).unwrap();
    database.execute("DELETE FROM schema_migrations WHERE version = ?1", [newest]).unwrap();
    for verb in [&["db", "check"] as &[_], &["audit", "verify"], &["token", "list"]] {
        let args: Vec<_> = verb.iter().chain(&["--data-dir", "data"]).copied().collect();
        let said = run(&dir, &args);
        assert_eq!(said.code, 1, "{verb:?}: {}", said.stderr);
        assert!(said.stderr.contains("omoi db migrate"), "{verb:?}: {}", said.stderr);
        assert!(said.stderr.contains(&newest.to_string()), "{verb:?}: {}", said.stderr);
    }
    let found: i64 =
        database.query_row("SELECT max(version) FROM schema_migrations", (), |row| row.get(0)).unwrap();
    assert!(found < newest);
}

#[test]
fn the_doctor_tells_what_there_is_and_leaves_no_trace() {
    let dir = Dir::new();
    let doctor = |args: &[&str]| {
        finish(dir.omoi(&[&["doctor"], args].concat()).env("OMOI_SANDBOX_LAUNCHER", "/nowhere/omoi-launcher"))
    };
    let said = doctor(&["--json", "--data-dir", "data"]);
    assert_eq!(said.code, 1);
    let report: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(
        (&report["ok"], &report["server"], &report["sandboxes"]),
        (&json!(false), &json!(true), &json!(false))
    );
    let checks = report["checks"].as_array().unwrap();
    for name in ["data directory", "SQLite", "free disk", "omoi-launcher", "omoi-worker", "git", "agents"] {
        let check = checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        assert!(check["level"] == "ok" || check["fix"].is_string(), "{check}");
    }
    let words = "no sandbox can be made here without omoi-launcher: /nowhere/omoi-launcher is not there";
    assert!(said.stderr.contains(words), "{}", said.stderr);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let said = doctor(&["--data-dir", "/proc/omoi"]);
    assert_eq!(said.code, 1);
    assert!(said.stdout.contains("missing") && said.stdout.contains("fix: "), "{}", said.stdout);
    assert!(said.stderr.contains("the server cannot run here without data directory"), "{}", said.stderr);
}

#[test]
fn a_setting_without_effect_is_warned_of_once_by_the_doctor_and_by_whatever_starts() {
    let dir = Dir::new();
    let env = [
        ("DAYTONA_API_KEY", "hidden"),
        ("REDIS_URL", "redis://:hidden@localhost:16379"),
        ("MESSAGE_POLL_URL", "https://hidden.example/sandbox/messages"),
        ("SANDBOX_SNAPSHOT", "hidden"),
    ];
    let mut doctor = dir.omoi(&["doctor", "--json", "--data-dir", "data"]);
    let report: Value = serde_json::from_str(&finish(doctor.envs(env)).stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    for (name, _) in env {
        let found: Vec<_> = checks.iter().filter(|check| check["name"] == name).collect();
        let [check] = found[..] else { panic!("one line for {name}: {found:?}") };
        assert_eq!((&check["area"], &check["level"]), (&json!("settings"), &json!("warn")));
        assert!(check["fix"].is_string() && !check.to_string().contains("hidden"), "{check}");
    }
    let mut serve = dir.omoi(&["serve", "--data-dir", "data", "--listen", "127.0.0.1:0", "--json"]);
    let mut serve = Running::start(serve.env("ORCHESTRATOR_ENABLED", "false").envs(env));
    let banner = serve.line();
    assert!(banner.contains("\"role\":\"api: "), "{banner}");
    serve.signal("-TERM");
    let served = serve.finish().stderr;
    // No server and no sandbox is needed to be warned.
    let ran = finish(dir.omoi(&["run", "x", "--url", "http://127.0.0.1:9", "--token", "x"]).envs(env)).stderr;
    let demo = dir.omoi(&["demo", "--exit"]).envs(env).env("OMOI_SANDBOX_LAUNCHER", "/nowhere").output();
    let demo = String::from_utf8(demo.unwrap().stderr).unwrap();
    for (what, said) in [("serve", served), ("run", ran), ("demo", demo)] {
        for (name, _) in env {
            let lines = said.lines().filter(|line| line.contains(&format!("{name} has no effect"))).count();
            assert_eq!(lines, 1, "{what} {name}: {said}");
        }
        assert!(!said.contains("hidden"), "{what}: {said}");
    }
}

#[test]
fn the_doctor_tries_no_layer_where_no_sandbox_could_be() {
    let dir = Dir::new();
    let doctor = |data_dir: &str| {
        let mut doctor = dir.omoi(&["doctor", "--json", "--data-dir", data_dir]);
        let said = finish(doctor.env("OMOI_SANDBOX_LAUNCHER", "/bin/false"));
        let report: Value = serde_json::from_str(&said.stdout).unwrap();
        report["checks"].as_array().unwrap().clone()
    };
    let checks = doctor("/proc/omoi");
    let isolation: Vec<_> = checks.iter().filter(|check| check["area"] == "isolation").collect();
    assert_eq!(isolation.len(), 1, "{isolation:?}");
    assert!(isolation[0]["detail"].as_str().unwrap().contains("the data directory"), "{isolation:?}");
    std::fs::create_dir(dir.path().join("data")).unwrap();
    let found = doctor("data").into_iter().find(|check| check["name"] == "data directory").unwrap();
    assert_eq!(found["detail"], "data is writable", "a relative one is found as well");
}
