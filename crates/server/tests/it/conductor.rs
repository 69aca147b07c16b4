//! The Conductor: tasks that get in each other's way are found before they are done, told once, and let go.

use omoi_protocol::SandboxId;
use omoi_server::{
    git::Mirrors,
    orchestrator::{Conductor, Node},
};
use serde_json::{Value, json};

use crate::{
    app::{App, Sandbox, unique},
    on_both,
    repository::{Repository, git},
    work::text,
};

/// The tick of a server whose loops the test runs itself.
fn conductor(app: &App) -> Conductor {
    let node = Node::open(&app.config.data_dir).unwrap();
    let mirrors = Mirrors::new(&app.config).unwrap();
    Conductor::new(app.store().clone(), app.clock.clone(), node, mirrors, app.config.conductor.clone())
}

impl App {
    async fn at_it(&self, project: &str, title: &str) -> Sandbox {
        let task = self.task(project, json!({ "title": title })).await;
        self.attach(json!({ "task_id": task })).await
    }

    /// Line `line` of a file is replaced.
    async fn edits_line(&self, sandbox: &Sandbox, path: &str, line: u32) {
        let diff = format!("--- a/{path}\n+++ b/{path}\n@@ -{line} +{line} @@\n-old\n+new\n");
        let data = json!({ "file_path": path, "change_type": "modified", "full_diff": diff });
        self.event(sandbox, "agent.file_edited", data).await.expect(200);
    }

    async fn conflicts(&self, project: &str, open: bool) -> Vec<Value> {
        let path = format!("/api/v1/conductor/conflicts?project_id={project}&open={open}");
        self.get(&path).await.expect(200)["items"].as_array().unwrap().clone()
    }

    async fn mail(&self, sandbox: &Sandbox) -> Vec<String> {
        let id: SandboxId = sandbox.id.parse().unwrap();
        let messages = self.store().message_list(&id, None, 100).await.unwrap();
        messages.into_iter().map(|message| message.content).collect()
    }
}

on_both! {
    async fn two_that_change_the_same_lines_are_told_once_while_they_work(app: App) {
        let project = app.project("parser").await;
        let conductor = conductor(&app);
        let (a, b) = (app.at_it(&project, "Rename it").await, app.at_it(&project, "Speed it up").await);
        app.edits_line(&a, "src/lib.rs", 10).await;
        app.edits_line(&b, "src/lib.rs", 12).await;
        app.edits_line(&b, "docs/a.md", 10).await;
        assert_eq!(conductor.tick().await.unwrap().conflicts_found, 0, "there is a line between them");
        app.edits_line(&b, "src/lib.rs", 11).await;
        let report = conductor.tick().await.unwrap();
        assert_eq!((report.conflicts_found, report.told), (1, 2));
        for _ in 0..3 {
            app.edits_line(&a, "src/lib.rs", 10).await;
            assert_eq!(conductor.tick().await.unwrap().told, 0, "once");
        }

        let found = app.conflicts(&project, true).await;
        let conflict = &found[0];
        assert_eq!((found.len(), &conflict["kind"]), (1, &json!("lines")));
        assert_eq!(conflict["files"], json!([{ "path": "src/lib.rs", "lines": [{ "first": 10, "last": 12 }] }]));
        let sides = [text(&conflict["a"]["task_id"]), text(&conflict["b"]["task_id"])];
        assert!(sides.contains(a.task.as_ref().unwrap()) && sides.contains(b.task.as_ref().unwrap()), "{conflict}");
        let (to_a, to_b) = (app.mail(&a).await, app.mail(&b).await);
        assert_eq!((to_a.len(), to_b.len()), (1, 1));
        assert!(to_a[0].contains("Speed it up") && to_a[0].contains("src/lib.rs (lines 10-12)"), "{to_a:?}");
        assert!(to_b[0].contains("Rename it") && to_b[0].contains(a.task.as_ref().unwrap()), "{to_b:?}");
        for sandbox in [&a, &b] {
            let path = format!("/api/v1/sandboxes/{}/events?event_type=conductor.conflict.found", sandbox.id);
            let told = app.get(&path).await.expect(200);
            assert_eq!(told["total_count"], 1, "{told}");
        }
        assert_eq!(app.told_of("conductor.conflict.found").await[0]["kind"], "lines");

        let matrix = app.get(&format!("/api/v1/conductor/matrix?project_id={project}")).await.expect(200);
        assert_eq!(matrix["members"].as_array().unwrap().len(), 2);
        assert_eq!((&matrix["pairs"][0]["state"], &matrix["pairs"][0]["a"], &matrix["pairs"][0]["b"]), (&json!("lines"), &json!(0), &json!(1)));

        // One of them ends and has pushed nothing: nobody is in the way any more.
        app.post(&format!("/api/v1/tasks/{}/cancel", b.task.as_ref().unwrap()), json!({})).await.expect(200);
        assert_eq!(conductor.tick().await.unwrap().conflicts_cleared, 1);
        assert_eq!((app.conflicts(&project, true).await.len(), app.conflicts(&project, false).await.len()), (0, 1));
        app.post(&format!("/api/v1/tasks/{}/cancel", a.task.as_ref().unwrap()), json!({})).await.expect(200);
        conductor.tick().await.unwrap();
        let matrix = app.get(&format!("/api/v1/conductor/matrix?project_id={project}")).await.expect(200);
        assert_eq!(matrix["members"], json!([]));
        assert_eq!(conductor.tick().await.unwrap(), Default::default());
    }

    async fn lines_are_those_of_the_beginning_whatever_was_added_before_them(app: App) {
        let project = app.project("parser").await;
        let conductor = conductor(&app);
        let (a, b) = (app.at_it(&project, "One").await, app.at_it(&project, "Two").await);
        let put_in = "--- a/f\n+++ b/f\n@@ -0,0 +1,100 @@\n".to_owned() + &"+x\n".repeat(100);
        app.event(&a, "agent.file_edited", json!({ "file_path": "f", "full_diff": put_in })).await.expect(200);
        app.edits_line(&a, "f", 150).await;
        app.edits_line(&b, "f", 150).await;
        assert_eq!(conductor.tick().await.unwrap().conflicts_found, 0);
        app.edits_line(&b, "f", 50).await;
        assert_eq!(conductor.tick().await.unwrap().conflicts_found, 1);
        assert_eq!(app.conflicts(&project, true).await[0]["files"][0]["lines"], json!([{ "first": 50, "last": 50 }]));
    }

    async fn a_file_whose_lines_nobody_knows_is_a_conflict_of_files(app: App) {
        let project = app.project("parser").await;
        let conductor = conductor(&app);
        let (a, b) = (app.at_it(&project, "One").await, app.at_it(&project, "Two").await);
        app.event(&a, "agent.file_edited", json!({ "file_path": "f" })).await.expect(200);
        app.edits_line(&b, "f", 50).await;
        app.edits_line(&b, "g", 50).await;
        conductor.tick().await.unwrap();
        let found = app.conflicts(&project, true).await;
        assert_eq!((found.len(), &found[0]["kind"], &found[0]["files"]), (1, &json!("files"), &json!([{ "path": "f", "lines": [] }])));
        // Another project's sandboxes are in nobody's way here.
        let elsewhere = app.at_it(&app.project("other").await, "Three").await;
        app.edits_line(&elsewhere, "f", 50).await;
        assert_eq!(conductor.tick().await.unwrap().conflicts_found, 0);
    }

    async fn each_agent_gets_one_message_about_all_that_is_new_to_it(app: App) {
        let project = app.project("parser").await;
        let conductor = conductor(&app);
        let mut agents = Vec::new();
        for title in ["One", "Two", "Three", "Four"] {
            let sandbox = app.at_it(&project, title).await;
            app.edits_line(&sandbox, "src/lib.rs", 10).await;
            agents.push(sandbox);
        }
        let report = conductor.tick().await.unwrap();
        assert_eq!((report.conflicts_found, report.told), (6, 4));
        for (n, agent) in agents.iter().enumerate() {
            let mail = app.mail(agent).await;
            assert_eq!(mail.len(), 1, "{mail:#?}");
            let others = ["One", "Two", "Three", "Four"].into_iter().enumerate().filter(|(other, _)| *other != n);
            for (_, title) in others {
                assert!(mail[0].contains(&format!("\"{title}\"")), "{title}: {mail:#?}");
            }
            assert_eq!(mail[0].matches("src/lib.rs").count(), 1, "the same place is named once: {mail:#?}");
        }

        // Who comes to a place of which the others know that it is shared is told; the others are not told again.
        let late = app.at_it(&project, "Five").await;
        app.edits_line(&late, "src/lib.rs", 10).await;
        let report = conductor.tick().await.unwrap();
        assert_eq!((report.conflicts_found, report.told), (4, 1));
        assert_eq!((app.mail(&late).await.len(), app.mail(&agents[0]).await.len()), (1, 1));
        let told: Vec<Value> = app.conflicts(&project, true).await.iter().filter(|one| one["told"].as_array().unwrap().len() == 1).cloned().collect();
        assert_eq!(told.len(), 4, "each says who was told of it");

        // Another place is another cause.
        let other = app.at_it(&project, "Six").await;
        app.edits_line(&other, "docs/a.md", 3).await;
        app.edits_line(&agents[0], "docs/a.md", 3).await;
        let report = conductor.tick().await.unwrap();
        assert_eq!((report.conflicts_found, report.told), (1, 2));
        let mail = app.mail(&agents[0]).await;
        assert!(mail.len() == 2 && mail.iter().any(|text| text.contains("docs/a.md")), "{mail:#?}");
        assert_eq!(app.mail(&agents[1]).await.len(), 1);
    }

    async fn nothing_is_called_optimal_while_conflicts_are_open(app: App) {
        let project = app.project("parser").await;
        let conductor = conductor(&app);
        let mut agents = Vec::new();
        for title in ["Rename it", "Speed up the whole parser", "Write a guide", "Delete stale sessions"] {
            agents.push(app.at_it(&project, title).await);
        }
        conductor.tick().await.unwrap();
        let status = app.get("/api/v1/conductor/status").await.expect(200);
        assert_eq!(status["last_analysis"]["system_status"], "optimal", "{status}");
        // A second later, long before the next analysis is due.
        for agent in &agents[..2] {
            app.edits_line(agent, "f", 5).await;
        }
        conductor.tick().await.unwrap();
        let status = app.get("/api/v1/conductor/status").await.expect(200);
        assert_eq!((&status["open_conflicts"], &status["last_analysis"]["conflict_count"]), (&json!(1), &json!(1)));
        for analysis in [&status["last_analysis"], &status["projects"][0]] {
            assert!(analysis["coherence_score"].as_f64().unwrap() <= 0.8, "{status}");
            assert_ne!(analysis["system_status"], "optimal", "{status}");
        }
    }

    async fn only_viewers_may_look(app: App) {
        let sandbox = app.sandbox_with_task().await;
        for path in ["conflicts", "matrix?project_id=prj-1"] {
            let path = format!("/api/v1/conductor/{path}");
            app.call(reqwest::Method::GET, &path, &sandbox.token, None).await.refused(403, "operator_needed");
        }
        app.get("/api/v1/conductor/matrix?project_id=prj-none").await.refused(404, "project_not_found");
    }
}

on_both! { |config| config.conductor.on_conflict = omoi_server::config::OnConflict::Note =>
    async fn a_conflict_that_is_only_noted_is_told_to_nobody(app: App) {
        let project = app.project("parser").await;
        let (a, b) = (app.at_it(&project, "One").await, app.at_it(&project, "Two").await);
        app.edits_line(&a, "f", 5).await;
        app.edits_line(&b, "f", 5).await;
        let report = conductor(&app).tick().await.unwrap();
        assert_eq!((report.conflicts_found, report.told), (1, 0));
        assert!(app.mail(&a).await.is_empty() && app.mail(&b).await.is_empty());
        assert_eq!(app.conflicts(&project, true).await[0]["told"], json!([]));
    }
}

/// Work that was pushed: a commit on the task's branch, straight into the mirror.
async fn push(app: &App, project: &str, sandbox: &Sandbox, far: &Repository, file: &str, content: &str) {
    let branch = app.get(&format!("/api/v1/tasks/{}", sandbox.task.as_ref().unwrap())).await.expect(200);
    let branch = text(&branch["branch_name"]);
    let mirror = app.config.data_dir.join("mirrors").join(format!("{project}.git"));
    far.git(&["checkout", "-q", "-B", "work", "origin-main"]);
    far.commit(file, content);
    far.git(&["push", "-q", "-f", mirror.to_str().unwrap(), &format!("work:refs/heads/{branch}")]);
}

on_both! {
    async fn branches_that_do_not_merge_are_found_and_tried_once_for_each_commit(app: App) {
        let far = Repository::new();
        far.commit("a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
        far.git(&["branch", "origin-main"]);
        let body = json!({ "name": unique("project"), "repository_url": far.path });
        let project = text(&app.post("/api/v1/projects", body).await.expect(201)["id"]);
        let mirrors = Mirrors::new(&app.config).unwrap();
        let stored = app.store().project_get(&project.parse().unwrap()).await.unwrap();
        mirrors.refresh(&stored).await.unwrap();
        let conductor = conductor(&app);
        let (a, b, c) = (app.at_it(&project, "One").await, app.at_it(&project, "Two").await, app.at_it(&project, "Three").await);
        push(&app, &project, &a, &far, "a.txt", "1\n2\n3\nFOUR\n5\n6\n7\n8\n9\n").await;
        push(&app, &project, &b, &far, "a.txt", "1\n2\n3\nfour\n5\n6\n7\n8\n9\n").await;
        push(&app, &project, &c, &far, "a.txt", "1\n2\n3\n4\n5\n6\n7\n8\nNINE\n").await;
        let mirror = app.config.data_dir.join("mirrors").join(format!("{project}.git"));
        let objects = git(&mirror, &["count-objects", "-v"]);
        let report = conductor.tick().await.unwrap();
        assert_eq!((report.merges_tried, report.conflicts_found), (6, 1));
        assert_eq!(conductor.tick().await.unwrap().merges_tried, 0, "no branch has moved");
        assert_eq!(git(&mirror, &["count-objects", "-v"]), objects, "a try leaves nothing behind");
        let left = std::fs::read_dir(mirror.parent().unwrap()).unwrap();
        assert!(!left.flatten().any(|entry| entry.file_name().to_string_lossy().contains("trial")));
        let found = app.conflicts(&project, true).await;
        assert_eq!((found.len(), &found[0]["kind"]), (1, &json!("merge")));
        assert_eq!(found[0]["files"], json!([{ "path": "a.txt", "lines": [{ "first": 4, "last": 4 }] }]));
        assert!(app.mail(&c).await.is_empty());
        let matrix = app.get(&format!("/api/v1/conductor/matrix?project_id={project}")).await.expect(200);
        assert_eq!((matrix["members"].as_array().unwrap().len(), matrix["pairs"].as_array().unwrap().len()), (4, 6));
        assert_eq!(matrix["members"][3]["branch"], "main");

        // Both are done: the branches still do not merge, and nobody is told again.
        for sandbox in [&a, &b] {
            app.event(sandbox, "agent.completed", json!({ "success": true })).await.expect(200);
        }
        let report = conductor.tick().await.unwrap();
        assert_eq!((report.conflicts_cleared, report.conflicts_found), (0, 0));
        // The second is put right, and the default branch moves under the third.
        push(&app, &project, &b, &far, "b.txt", "other\n").await;
        far.git(&["checkout", "-q", "main"]);
        far.commit("a.txt", "1\n2\n3\n4\n5\n6\n7\n8\nnine!\n");
        mirrors.refresh(&stored).await.unwrap();
        let report = conductor.tick().await.unwrap();
        assert_eq!((report.conflicts_cleared, report.conflicts_found), (1, 1));
        let found = app.conflicts(&project, true).await;
        assert_eq!((&found[0]["b"]["branch"], &found[0]["b"]["sandbox_id"]), (&json!("main"), &json!(null)));
        let said = app.mail(&c).await;
        assert!(said[0].contains("merge origin/main"), "{said:?}");
    }
}

on_both! { |config| config.conductor.merges_max = 2 =>
    async fn one_look_tries_no_more_merges_than_it_may(app: App) {
        let far = Repository::new();
        far.git(&["branch", "origin-main"]);
        let body = json!({ "name": unique("project"), "repository_url": far.path });
        let project = text(&app.post("/api/v1/projects", body).await.expect(201)["id"]);
        let stored = app.store().project_get(&project.parse().unwrap()).await.unwrap();
        Mirrors::new(&app.config).unwrap().refresh(&stored).await.unwrap();
        let conductor = conductor(&app);
        for (n, title) in ["One", "Two"].into_iter().enumerate() {
            let sandbox = app.at_it(&project, title).await;
            push(&app, &project, &sandbox, &far, "a.txt", &format!("{n}\n")).await;
            app.event(&sandbox, "agent.completed", json!({ "success": true })).await.expect(200);
        }
        let tried = [conductor.tick().await.unwrap(), conductor.tick().await.unwrap()];
        assert_eq!(tried.map(|report| (report.merges_tried, report.conflicts_found)), [(2, 0), (1, 1)]);
    }
}

on_both! {
    async fn tasks_that_seem_to_be_the_same_work_are_found_once_and_a_person_may_dismiss_them(app: App) {
        let project = app.project("parser").await;
        let conductor = conductor(&app);
        let more = |title: &str| json!({ "title": title, "description": "Read rows and write them as comma-separated values." });
        let mut held = Vec::new();
        for title in ["Export rows as CSV", "Export the rows as CSV", "Delete stale sessions from the cache every night"] {
            let task = app.task(&project, more(title)).await;
            held.push(app.attach(json!({ "task_id": task })).await);
        }
        assert_eq!(conductor.tick().await.unwrap().duplicates, 1);
        let list = |open: bool| {
            let path = format!("/api/v1/conductor/duplicates?project_id={project}&open={open}");
            let app = &app;
            async move { app.get(&path).await.expect(200)["items"].as_array().unwrap().clone() }
        };
        let found = list(true).await;
        assert_eq!(found.len(), 1);
        assert!(found[0]["similarity"].as_f64().unwrap() > 0.7, "{found:?}");
        assert_eq!((&found[0]["a"]["title"], &found[0]["b"]["title"]), (&json!("Export rows as CSV"), &json!("Export the rows as CSV")));
        assert_eq!(app.told_of("conductor.duplicate.found").await.len(), 1);

        let status = app.get("/api/v1/conductor/status").await.expect(200);
        assert_eq!((&status["open_duplicates"], &status["on_conflict"]), (&json!(1), &json!("tell")));
        let all = &status["last_analysis"];
        assert_eq!((&all["num_agents"], &all["duplicate_count"], &all["system_status"]), (&json!(3), &json!(1), &json!("inefficient")));
        assert_eq!(all["average_alignment"], 1.0);
        assert_eq!(status["projects"][0]["project_id"], project.as_str());

        let path = format!("/api/v1/conductor/duplicates/{}/dismiss", text(&found[0]["id"]));
        app.call(reqwest::Method::POST, &path, &held[0].token, None).await.refused(403, "operator_needed");
        let dismissed = app.post(&path, json!({})).await.expect(200);
        assert_eq!(app.post(&path, json!({})).await.expect(200), dismissed, "twice is once");
        assert!(dismissed["dismissed_by"].is_string(), "{dismissed}");
        app.post("/api/v1/conductor/duplicates/dup-none/dismiss", json!({})).await.refused(404, "duplicate_not_found");
        assert_eq!((list(true).await.len(), list(false).await.len()), (0, 1));
        let audit = app.get("/api/v1/audit?action=duplicate.dismiss").await.expect(200);
        assert_eq!(audit["items"].as_array().unwrap().len(), 1);

        assert_eq!(conductor.tick().await.unwrap().duplicates, 0, "not before its period is over");
        app.clock.advance(jiff::SignedDuration::from_secs(61));
        conductor.tick().await.unwrap();
        assert_eq!(app.told_of("conductor.duplicate.found").await.len(), 1);
        let analyses = app.get("/api/v1/conductor/analyses").await.expect(200);
        let counts: Vec<&Value> = analyses["items"].as_array().unwrap().iter().map(|one| &one["duplicate_count"]).collect();
        assert_eq!(counts, [&json!(0), &json!(1)], "newest first");
        let of_project = app.get(&format!("/api/v1/conductor/analyses?project_id={project}&limit=1")).await.expect(200);
        assert_eq!((of_project["items"].as_array().unwrap().len(), of_project["next"].is_string()), (1, true));
    }

    async fn conflicts_make_what_is_under_way_less_coherent(app: App) {
        let project = app.project("parser").await;
        let conductor = conductor(&app);
        let (a, b) = (app.at_it(&project, "Rename it").await, app.at_it(&project, "Speed up the whole parser").await);
        for sandbox in [&a, &b] {
            app.edits_line(sandbox, "f", 5).await;
        }
        conductor.tick().await.unwrap();
        let status = app.get("/api/v1/conductor/status").await.expect(200);
        let all = &status["last_analysis"];
        assert_eq!((&all["conflict_count"], &all["misaligned"], &all["average_alignment"]), (&json!(1), &json!(2), &json!(0.0)));
        assert_eq!((&all["coherence_score"], &all["system_status"]), (&json!(0.0), &json!("critical")));
        // With nobody at work there is nothing to say.
        for sandbox in [&a, &b] {
            app.post(&format!("/api/v1/tasks/{}/cancel", sandbox.task.as_ref().unwrap()), json!({})).await.expect(200);
        }
        app.clock.advance(jiff::SignedDuration::from_secs(61));
        conductor.tick().await.unwrap();
        let status = app.get("/api/v1/conductor/status").await.expect(200);
        assert_eq!((&status["last_analysis"]["system_status"], &status["projects"]), (&json!("no_agents"), &json!([])));
        let metrics = app.get("/metrics").await.expect(200);
        assert!(metrics.as_str().unwrap().contains("omoi_coherence"), "{metrics}");
    }
}
