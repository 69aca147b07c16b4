//! Projects: made, shown, changed, named once.

use serde_json::{Value, json};

use crate::{
    on_both,
    work::{SECOND, ids, text, time},
};

on_both! {
    async fn a_project_is_made_with_defaults_and_found_again(app: App) {
        let made = app.post("/api/v1/projects", json!({ "name": "parser" })).await.expect(201);
        assert_eq!(
            (made["default_branch"].as_str(), &made["archived"], &made["settings"], &made["max_concurrent"]),
            (Some("main"), &json!(false), &json!({}), &json!(null))
        );
        assert_eq!(time(&made["created_at"]), app.now());
        let shown = app.get(&format!("/api/v1/projects/{}", text(&made["id"]))).await.expect(200);
        assert_eq!(shown, made);
    }

    async fn a_project_keeps_everything_it_was_made_with(app: App) {
        let new = json!({
            "name": "parser", "description": "reads \u{201c}things\u{201d}", "default_branch": "trunk",
            "repository_url": "https://forge.example/parser.git", "max_concurrent": 7,
            "settings": { "checks": [{ "name": "tests", "command": "make test" }], "agent": { "model": "scripted" } },
        });
        let made = app.post("/api/v1/projects", new.clone()).await.expect(201);
        for (field, value) in new.as_object().unwrap() {
            assert_eq!(&made[field], value, "{field}");
        }
    }

    async fn a_patch_changes_what_it_names_and_nothing_else(app: App) {
        let new = json!({ "name": "parser", "description": "old", "max_concurrent": 3, "settings": { "a": 1 } });
        let old = app.post("/api/v1/projects", new).await.expect(201);
        let path = format!("/api/v1/projects/{}", text(&old["id"]));
        app.advance(SECOND).await;
        let changed = app.patch(&path, json!({ "description": "new", "archived": true })).await.expect(200);

        let mut expected = old.clone();
        expected["description"] = json!("new");
        expected["archived"] = json!(true);
        expected["updated_at"] = json!(app.now().to_string());
        assert_eq!(changed, expected);
        assert_eq!(app.get(&path).await.expect(200), expected);
    }

    async fn a_limit_is_taken_back_by_saying_null(app: App) {
        let new = json!({ "name": "parser", "max_concurrent": 3 });
        let path = format!("/api/v1/projects/{}", text(&app.post("/api/v1/projects", new).await.expect(201)["id"]));
        let of = async |patch: Value| app.patch(&path, patch).await.expect(200)["max_concurrent"].clone();
        assert_eq!(of(json!({ "description": "new" })).await, 3, "what is not there changes nothing");
        assert_eq!(of(json!({ "max_concurrent": null })).await, Value::Null);
        assert_eq!(of(json!({ "max_concurrent": 0 })).await, 0);
    }

    async fn two_projects_cannot_share_a_name(app: App) {
        app.project("parser").await;
        let other = app.project("printer").await;
        let path = format!("/api/v1/projects/{other}");
        app.post("/api/v1/projects", json!({ "name": "parser" })).await.refused(409, "project_exists");
        app.patch(&path, json!({ "name": "parser" })).await.refused(409, "project_exists");
        assert_eq!(app.get(&path).await.expect(200)["name"], "printer");
        app.patch(&path, json!({ "name": "printer" })).await.expect(200);
        assert_eq!(app.pages("/api/v1/projects", 10).await.len(), 2);
    }

    async fn projects_are_listed_newest_first_page_by_page(app: App) {
        let mut made = Vec::new();
        for n in 0..7 {
            made.push(app.project(&format!("project {n}")).await);
        }
        made.reverse();
        for limit in [1, 3, 7, 100] {
            assert_eq!(ids(&app.pages("/api/v1/projects", limit).await), made, "in pages of {limit}");
        }
    }

    async fn an_unknown_project_is_not_found(app: App) {
        let unknown = "/api/v1/projects/prj-none";
        app.get(unknown).await.refused(404, "project_not_found");
        app.patch(unknown, json!({ "name": "x" })).await.refused(404, "project_not_found");
        let in_it = json!({ "project_id": "prj-none", "title": "x" });
        app.post("/api/v1/tickets", in_it.clone()).await.refused(404, "project_not_found");
        app.post("/api/v1/tasks", in_it).await.refused(404, "project_not_found");
    }

    async fn a_project_that_makes_no_sense_is_refused_and_not_stored(app: App) {
        for body in [
            json!({}),
            json!({ "name": "" }),
            json!({ "name": "  " }),
            json!({ "name": "x".repeat(201) }),
            json!({ "name": "x", "max_concurrent": -1 }),
            json!({ "name": "x", "default_branch": "" }),
            json!({ "name": "x", "settings": [] }),
            json!({ "name": "x", "settings": { "setup": ["make"] } }),
            json!({ "name": "x", "settings": { "memory_gb": 0 } }),
            json!({ "name": "x", "settings": { "memory_gb": 9 } }),
            json!({ "name": "x", "settings": { "cpu": "two" } }),
            json!({ "name": "x", "settings": { "cpu": 5 } }),
            json!({ "name": "x", "settings": { "disk_gb": 11 } }),
            json!({ "name": "x", "settings": { "provider": "docker" } }),
            json!({ "name": "x", "settings": { "provider": 1 } }),
            json!({ "name": "x", "settings": { "image": "" } }),
            json!({ "name": "x", "settings": { "env": { "API_KEY": "hidden" } } }),
            json!({ "name": "x", "settings": { "env": { "1": "x" } } }),
            json!({ "name": "x", "nmae": "y" }),
            json!({ "name": "x", "repository_url": "relative/path" }),
            json!({ "name": "x", "repository_url": "ext::sh -c x" }),
        ] {
            app.post("/api/v1/projects", body).await.refused(422, "validation_failed");
        }
        assert!(app.pages("/api/v1/projects", 10).await.is_empty());
    }

    async fn an_address_with_a_secret_is_neither_stored_nor_repeated(app: App) {
        let project = app.project("parser").await;
        let path = format!("/api/v1/projects/{project}");
        for url in ["https://me:hidden@forge.example/a", "https://hidden@forge.example/a", "me:hidden@forge.example/a"] {
            let made = app.post("/api/v1/projects", json!({ "name": "x", "repository_url": url })).await;
            let changed = app.patch(&path, json!({ "repository_url": url })).await;
            for refused in [made, changed] {
                let detail = refused.refused(422, "validation_failed")["detail"].as_str().unwrap().to_owned();
                assert!(detail.contains("repository_url") && !detail.contains("hidden"), "{detail}");
            }
        }
        let trail = app.get("/api/v1/audit").await.expect(200).to_string();
        assert!(!trail.contains("hidden"), "{trail}");
        for url in ["https://forge.example/a.git", "git@forge.example:a.git", "/srv/a", ""] {
            app.patch(&path, json!({ "repository_url": url })).await.expect(200);
        }
    }
}
