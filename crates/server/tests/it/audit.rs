//! The audit trail: every deed of a person leaves a line, and no line can be touched unseen.

use futures_util::{StreamExt, stream};
use omoi_protocol::token::AuditHead;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    app::{App, On},
    on_both,
    work::{SECOND, text, time},
};

impl App {
    async fn newest_line(&self) -> Value {
        self.get("/api/v1/audit?limit=1").await.expect(200)["items"][0].clone()
    }

    async fn verdict(&self) -> Value {
        self.get("/api/v1/audit/verify").await.expect(200)
    }

    /// A few deeds, each of which leaves a line: 1 is the first token's.
    async fn lines(&self, count: usize) {
        for n in 2..=count {
            self.project(&format!("project {n}")).await;
        }
    }
}

on_both! {
    async fn every_deed_of_an_operator_leaves_a_line_with_their_name(app: App) {
        let ada = app.operator("ada", "admin").await;
        // As Ada; answers with what she was answered, after looking at the line it left.
        let deed = async |method: Method, path: &str, body: Value, action: &str| {
            app.advance(SECOND).await;
            let before = app.newest_line().await["n"].as_i64().unwrap();
            let answer = app.call(method, path, &ada, Some(&body)).await;
            assert!(answer.status.is_success(), "{action}: {}", answer.body);
            let line = app.newest_line().await;
            let what = (text(&line["actor"]), text(&line["action"]), line["n"].as_i64().unwrap());
            assert_eq!(what, ("ada".to_owned(), action.to_owned(), before + 1));
            assert_eq!(time(&line["at"]), app.now(), "{action}");
            let answer = answer.body;
            let id = [&answer["id"], &answer["sandbox"]["id"], &answer["task_id"], &answer["message_id"]];
            let named = id.iter().find(|id| id.is_string()).unwrap();
            if action != "message.send" {
                assert_eq!(line["entity_id"], **named, "{action}");
            }
            answer
        };
        let post = Method::POST;
        let at = |path: &str, of: &Value| format!("/api/v1/{path}/{}", text(&of["id"]));

        let project = deed(post.clone(), "/api/v1/projects", json!({ "name": "p" }), "project.create").await;
        deed(Method::PATCH, &at("projects", &project), json!({ "description": "d" }), "project.update").await;
        let new = json!({ "project_id": project["id"], "title": "t", "create_task": false });
        let ticket = deed(post.clone(), "/api/v1/tickets", new.clone(), "ticket.create").await;
        deed(Method::PATCH, &at("tickets", &ticket), json!({ "title": "u" }), "ticket.update").await;
        let new = json!({ "project_id": project["id"], "title": "t" });
        let other = deed(post.clone(), "/api/v1/tasks", new.clone(), "task.create").await;
        let task = deed(post.clone(), "/api/v1/tasks", new, "task.create").await;
        let task_path = at("tasks", &task);
        deed(Method::PATCH, &task_path, json!({ "priority": "LOW" }), "task.update").await;
        let on = json!({ "depends_on": [other["id"]] });
        deed(post.clone(), &format!("{task_path}/dependencies"), on.clone(), "task.dependencies").await;
        deed(Method::PUT, &format!("{task_path}/dependencies"), on, "task.dependencies").await;
        let one = format!("{task_path}/dependencies/{}", text(&other["id"]));
        deed(Method::DELETE, &one, json!({}), "task.dependencies").await;
        let timeout = json!({ "timeout_seconds": 60 });
        deed(post.clone(), &format!("{task_path}/set-timeout"), timeout, "task.set_timeout").await;
        deed(post.clone(), &format!("{task_path}/cancel"), json!({ "reason": "r" }), "task.cancel").await;
        assert_eq!(app.newest_line().await["detail"], json!({ "reason": "r" }));
        deed(post.clone(), &format!("{task_path}/retry"), json!({}), "task.retry").await;
        let new = json!({ "task_id": task["id"] });
        let attached = deed(post.clone(), "/api/v1/sandboxes", new, "sandbox.attach").await;
        let sandbox = at("sandboxes", &attached["sandbox"]);
        let hello = json!({ "content": "stop that", "message_type": "interrupt" });
        deed(post.clone(), &format!("{sandbox}/messages"), hello, "message.send").await;
        deed(post.clone(), &format!("{sandbox}/terminate"), json!({}), "sandbox.terminate").await;
        deed(post.clone(), "/api/v1/agents", json!({ "name": "a" }), "agent.create").await;
        let new = json!({ "name": "bob", "role": "viewer" });
        let token = deed(post, "/api/v1/tokens", new, "token.create").await;
        deed(Method::DELETE, &at("tokens", &token), json!({}), "token.revoke").await;
        assert_eq!(app.verdict().await, json!({ "entries": app.newest_line().await["n"], "broken_at": null }));
    }

    async fn a_reason_with_escapes_behind_a_masked_prefix_is_stored_as_it_was_hashed(app: App) {
        for escape in ['\u{8}', '\u{c}', '"', 'é'] {
            let sandbox = app.sandbox().await;
            let reason = format!("b21vaV9zYnhf{escape}{}", "A".repeat(20));
            let path = format!("/api/v1/sandboxes/{}/terminate", sandbox.id);
            app.post(&path, json!({ "reason": reason })).await.expect(200);
            let line = app.newest_line().await;
            assert_eq!(line["action"], "sandbox.terminate");
            assert_eq!(app.verdict().await, json!({ "entries": line["n"], "broken_at": null }));
        }
    }

    async fn what_is_refused_or_only_looked_at_leaves_no_line(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let before = app.newest_line().await;
        let viewer_only = "/api/v1/projects";
        app.get(viewer_only).await.expect(200);
        app.post("/api/v1/projects", json!({ "name": "" })).await.refused(422, "validation_failed");
        app.post("/api/v1/tasks/task-none/cancel", json!({})).await.refused(404, "task_not_found");
        let retry = format!("/api/v1/tasks/{}/retry", sandbox.task.as_ref().unwrap());
        app.post(&retry, json!({})).await.refused(409, "not_over");
        app.call(Method::DELETE, "/api/v1/tokens/tok-none", &app.token, None).await.refused(404, "token_not_found");
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        assert_eq!(app.newest_line().await, before);
    }

    async fn each_line_carries_the_hash_of_the_one_before(app: App) {
        app.lines(8).await;
        let mut lines = app.pages("/api/v1/audit", 3).await;
        lines.reverse();
        let numbers: Vec<_> = lines.iter().map(|line| line["n"].as_i64().unwrap()).collect();
        assert_eq!(numbers, (1..=8).collect::<Vec<_>>(), "newest first, without gaps");
        assert_eq!((&lines[0]["action"], &lines[0]["prev_hash"]), (&json!("token.create"), &json!("")));
        for pair in lines.windows(2) {
            assert_eq!(pair[1]["prev_hash"], pair[0]["hash"]);
            assert_eq!(text(&pair[1]["hash"]).len(), 64);
        }
        assert_eq!(app.verdict().await, json!({ "entries": 8, "broken_at": null }));
    }

    async fn lines_are_found_by_who_did_what_to_what(app: App) {
        let ada = app.operator("ada", "admin").await;
        let project = app.project("one").await;
        let task = app.task(&project, json!({})).await;
        app.call(Method::POST, &format!("/api/v1/tasks/{task}/cancel"), &ada, Some(&json!({}))).await.expect(200);
        let found = async |query: &str| {
            let lines = app.get(&format!("/api/v1/audit?{query}")).await.expect(200)["items"].as_array().unwrap().clone();
            lines.iter().map(|line| text(&line["action"])).collect::<Vec<_>>()
        };
        assert_eq!(found(&format!("entity_id={task}")).await, ["task.cancel", "task.create"]);
        assert_eq!(found("actor=ada").await, ["task.cancel"]);
        assert_eq!(found("action=project.create&entity_type=project").await, ["project.create"]);
        assert_eq!(found(&format!("actor=ada&entity_id={project}")).await, [""; 0]);
        assert_eq!(app.pages(&format!("/api/v1/audit?entity_id={task}"), 1).await.len(), 2, "page by page too");
    }

    async fn a_changed_line_is_found(app: App) {
        app.lines(8).await;
        let id = text(&app.pages("/api/v1/audit", 10).await[3]["entity_id"]);
        // Line 5, as it is and as somebody would like it to be.
        for (column, forged) in [
            ("actor", "'somebody else'"),
            ("action", "'project.delete'"),
            ("entity_id", "'prj-other'"),
            ("entity_type", "'task'"),
            ("detail", "'{}'"),
            ("detail", "'not even JSON'"),
            ("at", "at + 1"),
            ("prev_hash", "hash"),
            ("hash", "prev_hash"),
        ] {
            app.sql("DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT * FROM audit WHERE n = 5").await;
            app.sql(&format!("UPDATE audit SET {column} = {forged} WHERE n = 5")).await;
            assert_eq!(app.verdict().await, json!({ "entries": 4, "broken_at": 5 }), "{column}");
            app.sql("DELETE FROM audit WHERE n = 5; INSERT INTO audit SELECT * FROM kept").await;
            assert_eq!(app.verdict().await, json!({ "entries": 8, "broken_at": null }), "{column}");
        }
        assert_eq!(text(&app.pages("/api/v1/audit", 10).await[3]["entity_id"]), id);
    }

    async fn a_line_taken_out_put_in_or_moved_is_found(app: App) {
        app.lines(8).await;
        let damage = [
            ("DELETE FROM audit WHERE n = 5", 6),
            ("DELETE FROM audit WHERE n = 1", 2),
            ("DELETE FROM audit WHERE n = 5; UPDATE audit SET n = 5 WHERE n = 6", 5),
            ("UPDATE audit SET n = 100 WHERE n = 5; UPDATE audit SET n = 5 WHERE n = 6; \
              UPDATE audit SET n = 6 WHERE n = 100", 5),
            ("INSERT INTO audit SELECT 9, at, actor, action, entity_type, entity_id, detail, prev_hash, hash \
              FROM audit WHERE n = 8", 9),
        ];
        app.sql("CREATE TABLE kept AS SELECT * FROM audit").await;
        for (sql, broken_at) in damage {
            app.sql(sql).await;
            assert_eq!(app.verdict().await["broken_at"], broken_at, "{sql}");
            app.sql("DELETE FROM audit; INSERT INTO audit SELECT * FROM kept").await;
            assert_eq!(app.verdict().await, json!({ "entries": 8, "broken_at": null }), "{sql}");
        }
    }

    async fn a_line_whose_hash_was_forged_with_it_is_found_at_the_next(app: App) {
        app.lines(8).await;
        app.sql("UPDATE audit SET actor = 'x', hash = (SELECT hash FROM audit WHERE n = 2) WHERE n = 4").await;
        assert_eq!(app.verdict().await["broken_at"], 4, "a hash of something else does not fit");
    }

    async fn a_long_trail_is_followed_to_its_end(app: App) {
        let project = app.project("parser").await;
        let path = format!("/api/v1/projects/{project}");
        let patches = stream::iter(0..1_100).map(|n| app.patch(&path, json!({ "description": format!("{n}") })));
        patches.buffer_unordered(32).for_each(async |answer| drop(answer.expect(200))).await;
        assert_eq!(app.verdict().await, json!({ "entries": 1_102, "broken_at": null }));
        app.sql("UPDATE audit SET actor = 'x' WHERE n = 1077").await;
        assert_eq!(app.verdict().await, json!({ "entries": 1_076, "broken_at": 1_077 }));
    }
}

/// The trail was cut off at its end, which no chain of hashes shows.
impl App {
    async fn cut_off(&self) -> (i64, Value) {
        let verdict = self.verdict().await;
        assert_eq!(verdict["broken_at"], Value::Null, "{verdict}");
        (verdict["entries"].as_i64().unwrap(), verdict["cut_off"]["entries"].clone())
    }
}

on_both! {
    async fn a_trail_that_was_cut_off_at_its_end_is_found(app: App) {
        app.lines(60).await;
        app.sql("CREATE TABLE kept AS SELECT * FROM audit").await;
        for (cut, entries) in [("n = 60", 59), ("n > 10", 10), ("n > 0", 0)] {
            app.sql(&format!("DELETE FROM audit WHERE {cut}")).await;
            assert_eq!(app.cut_off().await, (entries, json!(60)), "{cut}");
            app.sql("DELETE FROM audit; INSERT INTO audit SELECT * FROM kept").await;
            assert_eq!(app.cut_off().await, (60, Value::Null), "{cut}");
        }
    }

    async fn lines_that_are_written_after_a_cut_do_not_hide_it(app: App) {
        app.lines(8).await;
        app.sql("DELETE FROM audit WHERE n > 5").await;
        for entries in 6..=10 {
            app.project(&format!("after {entries}")).await;
            assert_eq!(app.cut_off().await, (entries, json!(8)));
        }
    }

    async fn a_restart_neither_hides_a_cut_nor_sees_one_where_there_is_none(app: App) {
        let mut app = app;
        app.lines(8).await;
        app.restart().await;
        assert_eq!(app.cut_off().await, (8, Value::Null));
        app.stop().await;
        app.sql("DELETE FROM audit WHERE n > 5").await;
        app.start_again().await;
        assert_eq!(app.cut_off().await, (5, json!(8)));
    }

    async fn a_head_that_a_crash_has_left_behind_raises_no_alarm(app: App) {
        app.lines(5).await;
        let file = app.config.data_dir.join("audit.head");
        let older = std::fs::read(&file).unwrap();
        app.project("later").await;
        std::fs::write(&file, older).unwrap();
        assert_eq!(app.cut_off().await, (6, Value::Null));
        app.project("later still").await;
        assert_eq!(app.cut_off().await, (7, Value::Null));
        app.sql("DELETE FROM audit WHERE n = 7").await;
        assert_eq!(app.cut_off().await, (6, json!(7)));
    }

    async fn a_trail_without_a_recorded_head_gets_one_at_the_next_start(app: App) {
        let mut app = app;
        app.lines(5).await;
        app.stop().await;
        std::fs::remove_file(app.config.data_dir.join("audit.head")).unwrap();
        app.start_again().await;
        app.sql("DELETE FROM audit WHERE n = 5").await;
        assert_eq!(app.cut_off().await, (4, json!(5)));
    }

    async fn a_head_that_was_kept_elsewhere_must_be_in_the_trail(app: App) {
        app.lines(5).await;
        let head = app.store().audit_head().await.unwrap();
        assert_eq!(head.entries, 5);
        app.project("later").await;
        let found = async |kept| app.store().audit_verify(Some(kept)).await.unwrap().cut_off;
        assert_eq!(found(head.clone()).await, None);
        let other = AuditHead { hash: "0".repeat(64), ..head.clone() };
        assert_eq!(found(other.clone()).await, Some(other));
        let later = AuditHead { entries: 7, ..head };
        assert_eq!(found(later.clone()).await, Some(later));
    }

    async fn a_restored_backup_is_accepted_once_and_an_entry_says_so(app: App) {
        app.lines(8).await;
        app.sql("DELETE FROM audit WHERE n > 5").await;
        assert_eq!(app.cut_off().await, (5, json!(8)));
        app.store().audit_accept("ada").await.unwrap();
        assert_eq!(app.cut_off().await, (6, Value::Null));
        let line = app.newest_line().await;
        assert_eq!((&line["actor"], &line["action"]), (&json!("ada"), &json!("audit.accept")));
        assert_eq!((&line["detail"]["recorded"]["entries"], &line["detail"]["found"]["entries"]), (&json!(8), &json!(5)));
        app.sql("DELETE FROM audit WHERE n = 6").await;
        assert_eq!(app.cut_off().await, (5, json!(6)), "and the trail is guarded again");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_several_servers_records_the_head_it_has_seen() {
    let app = App::start(On::Postgres).await;
    let other = app.beside().await;
    app.lines(3).await;
    other.project("from the other").await;
    app.project("from the first").await;
    for server in [&app, &other] {
        assert_eq!(server.cut_off().await, (5, Value::Null));
    }
    app.sql("DELETE FROM audit WHERE n > 3").await;
    assert_eq!((app.cut_off().await, other.cut_off().await), ((3, json!(5)), (3, json!(4))));
}
