//! A server, and the commands that ask it.

use serde_json::json;

use crate::{
    postgres::Database,
    program::{Dir, run},
    server::Served,
};

#[test]
fn without_a_server_or_a_token_the_next_step_is_named() {
    let dir = Dir::new();
    let said = run(&dir, &["task", "list"]);
    assert_eq!(said.code, 4);
    assert!(said.stderr.contains("hint: set OMOI_TOKEN"), "{}", said.stderr);
    // Nothing listens on a port that was just given back.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let said = run(&dir, &["task", "list", "--url", &url, "--token", "omoi_op_x"]);
    assert_eq!(said.code, 5);
    assert!(said.stderr.contains(&url) && said.stderr.contains("omoi serve"), "{}", said.stderr);
    assert_eq!(run(&dir, &["whoami", "--url", "nowhere", "--token", "x"]).code, 2);
}

#[test]
fn the_first_start_shows_a_token_and_later_ones_how_to_make_one() {
    let dir = Dir::new();
    let served = Served::start_for_people(&dir);
    let token = served.token.clone().expect("the first start shows a token");
    assert!(
        served.banner.contains("shown this once") && served.banner.contains("SQLite at "),
        "{}",
        served.banner
    );
    assert!(served.banner.contains("Linux namespaces"), "{}", served.banner);
    assert_eq!(served.omoi(&["whoami", "--json"]).json()["role"], "admin");
    assert_eq!(served.stop(), 0);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&dir.path().join("data").metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);

    let mut again = Served::start_for_people(&dir);
    assert!(again.token.is_none() && again.banner.contains("omoi token create"), "{}", again.banner);
    again.token = Some(token);
    again.omoi(&["whoami"]).ok();
    let other = run(&dir, &["token", "create", "--data-dir", "data", "--role", "viewer"]).ok();
    again.token = Some(other.trim().to_owned());
    assert_eq!(again.omoi(&["whoami", "--json"]).json()["role"], "viewer");
    assert_eq!(again.omoi(&["project", "create", "shop"]).code, 4);
    again.token = Some("omoi_op_wrong".to_owned());
    assert_eq!(again.omoi(&["whoami"]).code, 4);
    assert_eq!(again.stop(), 0);
}

/// As docs/operations.md has it, but for the files that somebody forgets to remove.
#[test]
fn what_a_stopped_server_leaves_is_one_file_and_a_backup_takes_its_place() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    served.omoi(&["project", "create", "before"]).ok();
    run(&dir, &["db", "backup", "copy.db", "--data-dir", "data"]).ok();
    served.omoi(&["project", "create", "after"]).ok();
    let token = served.token.clone();
    assert_eq!(served.stop(), 0);
    let log = dir.path().join("data/omoi.db-wal").metadata();
    assert_eq!(log.map_or(0, |log| log.len()), 0, "the log is empty");
    std::fs::copy(dir.path().join("copy.db"), dir.path().join("data/omoi.db")).unwrap();
    let mut served = Served::start_api(&dir);
    served.token = token;
    let listed = served.omoi(&["project", "list", "--json"]).json();
    let names: Vec<_> = listed["items"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["before"]);
    assert_eq!(served.stop(), 0);
}

#[test]
fn an_address_that_is_taken_is_named() {
    let dir = Dir::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = run(&dir, &["serve", "--data-dir", "data", "--listen", &address]);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    assert!(said.stderr.contains(&address) && said.stderr.contains("--listen"), "{}", said.stderr);
    let served = Served::start(&dir);
    assert!(served.token.is_some(), "the start that failed took the first token with it");
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_file_of_tasks_is_imported_once_under_its_key() {
    let dir = Dir::new();
    let served = Served::start(&dir);
    let project = served.omoi(&["project", "create", "shop", "--json"]).json();
    let project = project["id"].as_str().unwrap();
    let file = dir.path().join("plan.yaml");
    let plan = "- key: code\n  title: Write it\n- key: docs\n  title: Describe it\n  depends_on: [code]\n";
    std::fs::write(&file, plan).unwrap();
    let file = file.to_str().unwrap();
    let import = ["task", "import", file, "--project", project, "--batch-key", "plan"];
    let said = served.omoi(&import).ok();
    assert!(said.lines().any(|line| line.contains("docs") && line.contains("Describe it")), "{said}");
    assert_eq!(served.omoi(&import).ok(), said, "a second time makes nothing");
    assert_eq!(served.omoi(&["task", "list", "--json"]).json()["items"].as_array().unwrap().len(), 2);

    std::fs::write(file, "- {key: a, title: x, depends_on: [b]}\n").unwrap();
    let refused = served.omoi(&["task", "import", file, "--project", project]);
    assert!(refused.code == 1 && refused.stderr.contains("\"b\""), "{}", refused.stderr);
    std::fs::write(file, "key: a").unwrap();
    let unread = served.omoi(&["task", "import", file, "--project", project]);
    assert!(unread.code != 0 && unread.stderr.contains("plan.yaml"), "{}", unread.stderr);
}

#[test]
fn projects_tickets_and_tasks_are_made_listed_and_shown() {
    let dir = Dir::new();
    let served = Served::start(&dir);
    let project = served
        .omoi(&["project", "create", "shop", "--repository", "https://example.org/shop.git", "--json"])
        .json();
    let project = project["id"].as_str().unwrap().to_owned();
    let ticket = served.omoi(&[
        "ticket",
        "create",
        "--project",
        &project,
        "--type",
        "bug",
        "--priority",
        "high",
        "Wrong total",
        "--json",
    ]);
    let ticket = ticket.json();
    assert_eq!((&ticket["priority"], &ticket["ticket_type"]), (&json!("HIGH"), &json!("bug")));
    let first = ticket["task_id"].as_str().unwrap().to_owned();
    let ticket = ticket["id"].as_str().unwrap().to_owned();
    let task = served.omoi(&[
        "task",
        "create",
        "--ticket",
        &ticket,
        "--depends-on",
        &first,
        "--timeout",
        "30m",
        "Write docs",
        "--json",
    ]);
    let task = task.json();
    assert_eq!((&task["timeout_seconds"], &task["dependencies"]), (&json!(1800), &json!([first])));
    let task = task["id"].as_str().unwrap().to_owned();

    for (noun, id, title) in
        [("project", &project, "shop"), ("ticket", &ticket, "Wrong total"), ("task", &task, "Write docs")]
    {
        let listed = served.omoi(&[noun, "list"]).ok();
        assert!(listed.lines().any(|line| line.contains(id.as_str()) && line.contains(title)), "{listed}");
        assert!(!listed.contains('\u{1b}') && !listed.contains('│'), "not plain: {listed}");
        let shown = served.omoi(&[noun, "show", id]).ok();
        assert!(shown.contains(id.as_str()) && shown.contains(title) && shown.contains("created"), "{shown}");
        let absent = served.omoi(&[noun, "show", "nobody"]);
        assert_eq!(absent.code, 3, "{}", absent.stderr);
        assert!(absent.stderr.starts_with("error: ") && absent.stdout.is_empty());
    }
    assert_projects_go_by_name(&dir, &served);
    let page = served.omoi(&["task", "list", "--limit", "1", "--json"]).json();
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    assert!(page["next"].is_string());
    let none = served.omoi(&["task", "list", "--status", "running"]);
    assert!(none.stderr.contains("nothing found"), "{}", none.stderr);

    let cancelled = served.omoi(&["task", "cancel", &task, &first, "--reason", "enough"]).ok();
    assert_eq!(cancelled, format!("{task} is cancelled\n{first} is cancelled\n"));
    assert_eq!(served.omoi(&["task", "retry", &first]).ok(), format!("{first} is pending\n"));
    assert!(served.omoi(&["agent", "list"]).stderr.contains("nothing found"));
    assert!(served.omoi(&["audit", "list"]).ok().contains("task.cancel"));
    assert_eq!(served.stop(), 0);
    run(&dir, &["audit", "verify", "--data-dir", "data"]).ok();
}

/// Wherever a project may be named; one that is not there is said so, and is no empty list.
fn assert_projects_go_by_name(dir: &Dir, served: &Served<'_>) {
    dir.write("plan.yaml", "- {key: a, title: Planned}\n");
    served.omoi(&["project", "create", "empty"]).ok();
    for args in [
        &["task", "create", "Named"] as &[_],
        &["task", "import", "plan.yaml"],
        &["ticket", "create", "Named", "--no-task"],
        &["task", "list"],
        &["ticket", "list"],
        &["sandbox", "list"],
        &["conductor", "show"],
    ] {
        served.omoi(&[args, &["--project", "shop"]].concat()).ok();
        let absent = served.omoi(&[args, &["--project", "nowhere"]].concat());
        assert_eq!((absent.code, absent.stdout.as_str()), (3, ""), "{args:?}: {}", absent.stderr);
        assert!(absent.stderr.contains("no project \"nowhere\""), "{args:?}: {}", absent.stderr);
    }
    let count = |noun: &str, project: &str| {
        let listed = served.omoi(&[noun, "list", "--project", project, "--json"]).json();
        listed["items"].as_array().unwrap().len()
    };
    assert_eq!((count("task", "shop"), count("ticket", "shop")), (4, 2));
    assert_eq!((count("task", "empty"), count("ticket", "empty")), (0, 0));
}

#[test]
fn events_are_followed_from_none_on_and_through_a_restart() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    let attached = served.omoi(&["sandbox", "attach", "--id", "sbx-a", "--json"]).json();
    let worker = served.worker("sbx-a", attached["token"].as_str().unwrap());
    let mut follower = served.spawn(&["sandbox", "events", "sbx-a", "--follow"]);
    worker.post("agent.started", json!({ "task": "Fix it" }));
    assert!(follower.line().contains("agent.started"));
    let served = served.restart();
    worker.at(&served).post("agent.completed", json!({}));
    assert!(follower.line().contains("agent.completed"));
    served.omoi(&["sandbox", "terminate", "sbx-a"]).ok();
    assert_eq!(follower.finish().code, 0, "it ends with the sandbox");
}

#[test]
fn removed_projects_take_no_room_in_a_list() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    for name in ["kept", "old", "older"] {
        served.omoi(&["project", "create", name]).ok();
    }
    for name in ["old", "older"] {
        served.omoi(&["project", "remove", name]).ok();
    }
    let listed = |more: &[&str]| {
        let page = served.omoi(&[&["project", "list", "--limit", "1", "--json"], more].concat()).json();
        page["items"][0]["name"].as_str().map(str::to_owned)
    };
    assert_eq!((listed(&[]).as_deref(), listed(&["--all"]).as_deref()), (Some("kept"), Some("older")));
}

#[test]
fn a_sandbox_is_attached_watched_steered_compared_and_pruned() {
    let dir = Dir::new();
    let served = Served::start(&dir);
    let project =
        served.omoi(&["project", "create", "shop", "--json"]).json()["id"].as_str().unwrap().to_owned();
    let task = served.omoi(&["task", "create", "--project", &project, "Fix it", "--json"]).json();
    let task = task["id"].as_str().unwrap().to_owned();
    let attached = served
        .omoi(&["sandbox", "attach", "--id", "sbx-a", "--task", &task, "--label", "host=here", "--json"])
        .json();
    assert_eq!(attached["sandbox"]["labels"], json!({ "host": "here" }));
    let worker = served.worker("sbx-a", attached["token"].as_str().unwrap());
    assert!(served.omoi(&["sandbox", "list", "--live"]).ok().contains("sbx-a"));

    worker.post("agent.started", json!({ "task": "Fix it" }));
    let mut follower = served.spawn(&["sandbox", "events", "sbx-a", "--follow"]);
    assert!(follower.line().contains("agent.started"));
    worker.post("agent.heartbeat", json!({}));
    worker.post("agent.tool_use", json!({ "tool": "Bash", "input": { "command": "cargo test" } }));
    assert!(follower.line().contains("agent.heartbeat"));
    assert!(follower.line().contains("Bash: cargo test"));

    let events = served.omoi(&["sandbox", "events", "sbx-a", "--type", "agent.tool_use", "--json"]).json();
    assert_eq!(events["events"].as_array().unwrap().len(), 1);
    let trajectory = served.omoi(&["sandbox", "trajectory", "sbx-a"]);
    assert!(
        !trajectory.stdout.contains("heartbeat") && trajectory.stderr.contains("1 heartbeats"),
        "{trajectory:?}"
    );
    assert!(served.omoi(&["sandbox", "logs", "sbx-a"]).ok().contains("Bash"));
    assert!(served.omoi(&["sandbox", "show", "sbx-a"]).ok().contains("host=here"));

    let queued = served.omoi(&["sandbox", "send", "sbx-a", "hello", "--json"]).json();
    assert_eq!(queued["status"], "queued");
    assert_eq!(worker.take(), ["hello"]);
    let waiting = served.spawn(&[
        "sandbox",
        "send",
        "sbx-a",
        "stop",
        "--type",
        "interrupt",
        "--wait",
        "--timeout",
        "30s",
    ]);
    assert_eq!(worker.take(), ["stop"]);
    let said = waiting.finish();
    assert!(said.ok().contains("is delivered"));
    let said = served.omoi(&["sandbox", "send", "sbx-a", "late", "--wait", "--timeout", "0s"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("the message is queued, not delivered"), "{}", said.stderr);

    served.omoi(&["sandbox", "attach", "--id", "sbx-b"]).ok();
    let compared = served.omoi(&["sandbox", "compare", "sbx-a", "sbx-b", "--json"]).json();
    assert_eq!((&compared[0]["by_type"]["agent.tool_use"], &compared[1]["events"]), (&json!(1), &json!(0)));
    assert!(served.omoi(&["sandbox", "compare", "sbx-a", "sbx-b"]).ok().contains("agent.tool_use"));
    let three = served.omoi(&["sandbox", "compare", "sbx-a", "sbx-b", "sbx-a", "--json"]).json();
    assert_eq!((three.as_array().unwrap().len(), &three[2]["events"]), (3, &compared[0]["events"]));
    let summary = served.omoi(&["sandbox", "compare"]).ok();
    assert!(summary.contains("sbx-a") && summary.contains("sbx-b"), "{summary}");
    let of_project = served.omoi(&["sandbox", "compare", "--project", "shop", "--json"]).json();
    assert_eq!((of_project.as_array().unwrap().len(), &of_project[0]["sandbox_id"]), (1, &json!("sbx-a")));
    let listed = served.omoi(&["sandbox", "list", "--json"]).json();
    let counts: Vec<_> = listed["items"].as_array().unwrap().iter().map(|one| &one["event_count"]).collect();
    assert_eq!(counts, [&json!(0), &compared[0]["events"]]);
    assert!(served.omoi(&["sandbox", "list"]).ok().lines().next().unwrap().contains("events"));

    worker.post("agent.completed", json!({ "success": true }));
    assert!(follower.line().contains("agent.completed"));
    assert_eq!(follower.finish().code, 0);
    let told = served.omoi(&["sandbox", "prune", "--older-than", "0s", "--dry-run"]);
    let words = ["0 live and idle: would be terminated", "1 had already ended and would be closed"];
    assert!(words.iter().all(|word| told.stderr.contains(word)), "{told:?}");
    let prune = |more: &[&str]| {
        let args: Vec<_> =
            ["sandbox", "prune", "--older-than", "0s", "--json"].iter().chain(more).copied().collect();
        let pruned = served.omoi(&args).json();
        assert_eq!(pruned["terminated"], json!([]), "it has ended already");
        pruned["closed"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["status"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(prune(&["--dry-run"]), ["completed"]);
    assert_eq!(prune(&[]), ["terminated"]);
    assert!(prune(&[]).is_empty());
    assert_eq!(served.omoi(&["sandbox", "send", "sbx-a", "anybody?"]).code, 1);
    assert_eq!(served.stop(), 0);
}

#[test]
fn everything_works_on_postgres_too() {
    let (dir, database) = (Dir::new(), Database::create());
    let at = ["--data-dir", "data", "--database-url", &database.url];
    let with = |args: &[&str]| run(&dir, &[args, &at].concat());
    assert!(with(&["db", "migrate"]).ok().starts_with("PostgreSQL: schema "));
    let token = with(&["token", "create", "--role", "admin"]).ok();
    let report: serde_json::Value = serde_json::from_str(&with(&["doctor", "--json"]).stdout).unwrap();
    let check =
        report["checks"].as_array().unwrap().iter().find(|check| check["name"] == "PostgreSQL").unwrap();
    assert_eq!((&check["level"], &check["needed_by"]), (&json!("ok"), &json!("server")));
    assert_eq!(with(&["db", "check", "--json"]).json()["damage"], json!([]));
    let backup = with(&["db", "backup", "copy.db"]);
    assert!(backup.code == 1 && backup.stderr.contains("pg_dump"), "{}", backup.stderr);

    let mut served = Served::start_on(&dir, Some(&database.url));
    assert!(served.banner.contains("announced through PostgreSQL"), "{}", served.banner);
    assert!(served.token.is_none(), "there is a token already");
    served.token = Some(token.trim().to_owned());
    served.omoi(&["project", "create", "shop"]).ok();
    assert!(served.omoi(&["project", "list"]).ok().contains("shop"));
    assert_eq!(served.stop(), 0);
    with(&["audit", "verify"]).ok();
    database.execute("UPDATE audit SET actor = 'somebody else' WHERE n = 2");
    let verdict = with(&["audit", "verify", "--json"]);
    assert_eq!((verdict.code, verdict.stdout.contains("\"broken_at\": 2")), (1, true), "{verdict:?}");
    assert!(verdict.stderr.contains("changed at entry 2"), "{}", verdict.stderr);
}
