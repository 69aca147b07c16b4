//! Laws that hold for every operation of the OpenAPI document: who may not use one is told that before anything else is judged, and
//! no query parameter is passed over.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::{
    app::{Answer, App, Sandbox, answer},
    on_both,
    work::text,
};

/// The least that an operation asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Nothing,
    AnyToken,
    Viewer,
    Operator,
    Admin,
    /// The sandbox of the path, or a viewer.
    Reader,
    /// The sandbox of the path, or an operator.
    Worker,
    /// Any sandbox, or an operator.
    AnyWorker,
    /// The sandbox of the path.
    SandboxItself,
}

/// Operations that ask for something else than a viewer for a GET and an operator for all others.
const ACCESS: &[(Access, &[&str])] = &[
    (
        Access::Nothing,
        &[
            "health_health",
            "health_ready",
            "health_document",
            "sandboxes_sandbox_health",
            "sessions_begin",
            "sessions_end",
        ],
    ),
    (Access::AnyToken, &["tokens_whoami"]),
    (Access::Viewer, &["tasks_check_circular"]),
    (
        Access::Admin,
        &[
            "audit_list_audit",
            "audit_verify_audit",
            "guardian_reallocate",
            "tokens_create",
            "tokens_list",
            "tokens_revoke",
        ],
    ),
    (
        Access::Reader,
        &[
            "messages_peers",
            "sandboxes_download",
            "sandboxes_get_diff",
            "sandboxes_get_egress",
            "sandboxes_get_events",
            "sandboxes_get_logs",
            "sandboxes_get_one",
            "sandboxes_get_task",
            "sandboxes_get_trajectory",
            "sandboxes_get_transcript",
            "sandboxes_list_artifacts",
        ],
    ),
    (
        Access::Worker,
        &[
            "messages_report",
            "messages_take",
            "sandboxes_hand_in",
            "sandboxes_post_events",
            "sandboxes_task_complete",
        ],
    ),
    (Access::AnyWorker, &["results_hand_in"]),
    (Access::SandboxItself, &["messages_tell", "sandboxes_append_transcript"]),
];

/// One operation of the document.
#[derive(Debug)]
struct Operation {
    id: String,
    method: Method,
    path: String,
    query: Vec<Parameter>,
    access: Access,
}

#[derive(Debug)]
struct Parameter {
    name: String,
    schema: Value,
}

impl Operation {
    fn all() -> Vec<Self> {
        let document: Value = serde_json::from_str(&omoi_server::openapi_json()).unwrap();
        let mut all = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let id = text(&operation["operationId"]);
                let method: Method = method.to_uppercase().parse().unwrap();
                let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
                let query = parameters.iter().filter(|one| one["in"] == "query");
                let query =
                    query.map(|one| Parameter { name: text(&one["name"]), schema: one["schema"].clone() });
                let query = query.collect();
                let listed = ACCESS.iter().find(|(_, ids)| ids.contains(&id.as_str()));
                let usual = if method == Method::GET { Access::Viewer } else { Access::Operator };
                let access = listed.map_or(usual, |(access, _)| *access);
                all.push(Self { id, method, path: path.clone(), query, access });
            }
        }
        assert!(all.len() > 100, "the document has {} operations", all.len());
        for id in ACCESS.iter().flat_map(|(_, ids)| *ids) {
            assert!(all.iter().any(|operation| operation.id == *id), "there is no operation {id}");
        }
        all
    }

    /// With this for each of the path's parameters but the sandbox's own id.
    fn path(&self, sandbox: &Sandbox, other: &str) -> String {
        let mut path = self.path.replace("/sandboxes/{id}", &format!("/sandboxes/{}", sandbox.id));
        while let (Some(open), Some(close)) = (path.find('{'), path.find('}')) {
            path.replace_range(open..=close, other);
        }
        path
    }
}

/// Callers of every kind.
struct Callers {
    sandbox: Sandbox,
    other: Sandbox,
    viewer: String,
    operator: String,
    admin: String,
}

impl Callers {
    async fn new(app: &App) -> Self {
        let token = async |role: &str| {
            let made = app.post("/api/v1/tokens", json!({ "name": role, "role": role })).await.expect(201);
            text(&made["secret"])
        };
        Self {
            sandbox: app.sandbox().await,
            other: app.sandbox().await,
            viewer: token("viewer").await,
            operator: token("operator").await,
            admin: app.token.clone(),
        }
    }

    /// Those who may not use an operation, though their tokens are good.
    fn refused(&self, access: Access) -> Vec<&str> {
        match access {
            Access::Nothing | Access::AnyToken => vec![],
            Access::Viewer => vec![&self.sandbox.token],
            Access::Operator => vec![&self.sandbox.token, &self.viewer],
            Access::Admin => vec![&self.sandbox.token, &self.viewer, &self.operator],
            Access::Reader => vec![&self.other.token],
            Access::Worker => vec![&self.other.token, &self.viewer],
            Access::AnyWorker => vec![&self.viewer],
            Access::SandboxItself => vec![&self.other.token, &self.admin],
        }
    }

    /// Those who may, and of operators the lowest.
    fn admitted(&self, access: Access) -> Vec<&str> {
        match access {
            Access::Nothing | Access::AnyToken => vec![&self.sandbox.token, &self.viewer],
            Access::Viewer => vec![&self.viewer],
            Access::Operator => vec![&self.operator],
            Access::Admin => vec![&self.admin],
            Access::Reader => vec![&self.sandbox.token, &self.viewer],
            Access::Worker | Access::AnyWorker => vec![&self.sandbox.token, &self.operator],
            Access::SandboxItself => vec![&self.sandbox.token],
        }
    }
}

/// An operation called in every wrong way: a path, a query and a body that cannot be read, each alone and all together.
fn wrong(app: &App, operation: &Operation, sandbox: &Sandbox) -> Vec<(String, RequestBuilder)> {
    let (good, bad) = (operation.path(sandbox, "none"), operation.path(sandbox, "%20no%20id"));
    let bad_sandbox = bad.replace(&sandbox.id, "%20no%20id");
    let query = "?zzzz=1&limit=x&limit=y&history=maybe&cursor=%00";
    let targets =
        [(bad, ""), (good.clone(), query), (bad_sandbox.clone(), ""), (good, ""), (bad_sandbox, query)];
    let requests = targets.into_iter().map(|(path, query)| {
        let target = format!("{path}{query}");
        let request = app.http.request(operation.method.clone(), format!("{}{target}", app.base));
        let request = request.header("content-type", "text/plain").body("{");
        (format!("{} {target}", operation.method), request)
    });
    requests.collect()
}

async fn called(app: &App, operation: &Operation, target: &str, token: &str) -> Answer {
    app.call(operation.method.clone(), target, token, None).await
}

on_both! {
    async fn who_may_not_use_an_operation_is_told_so_whatever_else_is_wrong(app: App) {
        let callers = Callers::new(&app).await;
        for operation in Operation::all() {
            if operation.access == Access::Nothing {
                continue;
            }
            for (what, request) in wrong(&app, &operation, &callers.sandbox) {
                let told = answer(request.try_clone().unwrap()).await;
                assert_eq!(told.status, 401, "{what} without a token: {}", told.body);
                let told = answer(request.try_clone().unwrap().bearer_auth("omoi_op_wrong")).await;
                assert_eq!(told.status, 401, "{what} with a wrong token: {}", told.body);
                for token in callers.refused(operation.access) {
                    let told = answer(request.try_clone().unwrap().bearer_auth(token)).await;
                    assert_eq!(told.status, 403, "{what} of {}: {}", operation.id, told.body);
                }
            }
        }
    }

    async fn an_unknown_query_parameter_is_refused_by_every_operation_and_named(app: App) {
        let callers = Callers::new(&app).await;
        let before = app.trace().await;
        for operation in Operation::all() {
            let path = operation.path(&callers.sandbox, "none");
            for token in callers.admitted(operation.access) {
                let told = called(&app, &operation, &format!("{path}?zzzz=1"), token).await;
                let detail = text(&told.refused(422, "unknown_parameter")["detail"]);
                assert!(detail.contains("\"zzzz\""), "{detail}");
                let known = operation.query.iter().all(|one| detail.contains(&one.name));
                assert!(known, "{}: {detail}", operation.id);
            }
        }
        assert_eq!(app.trace().await, before, "something was stored");
    }

    async fn a_misspelled_query_parameter_is_answered_with_the_nearest(app: App) {
        let callers = Callers::new(&app).await;
        for operation in Operation::all() {
            let path = operation.path(&callers.sandbox, "none");
            let token = callers.admitted(operation.access)[0];
            for Parameter { name, .. } in operation.query.iter().filter(|one| one.name.len() > 3) {
                let misspelled = format!("{}{}", &name[..2], &name[3..]);
                let told = called(&app, &operation, &format!("{path}?{misspelled}=1"), token).await;
                let detail = text(&told.refused(422, "unknown_parameter")["detail"]);
                assert!(detail.contains(&format!("the nearest is {name:?}")), "{}: {detail}", operation.id);
            }
        }
    }

    async fn a_query_parameter_that_is_given_twice_or_means_nothing_is_refused(app: App) {
        let callers = Callers::new(&app).await;
        for operation in Operation::all() {
            let path = operation.path(&callers.sandbox, "none");
            let token = callers.admitted(operation.access)[0];
            for Parameter { name, schema } in &operation.query {
                let twice = called(&app, &operation, &format!("{path}?{name}=1&{name}=1"), token).await;
                let detail = text(&twice.refused(422, "repeated_parameter")["detail"]);
                assert!(detail.contains(name.as_str()), "{detail}");
                // A free text has no value that means nothing.
                if is_free(schema) {
                    continue;
                }
                let told = called(&app, &operation, &format!("{path}?{name}=%20zzzz%20"), token).await;
                assert_eq!(told.status, 422, "{} {name}: {}", operation.id, told.body);
            }
        }
    }
}

on_both! {
    async fn the_earlier_system_s_format_of_an_export_is_answered_with_the_layouts_there_are(app: App) {
        let told = app.get("/api/v1/specs/none/export?format=markdown").await.refused(422, "unknown_parameter");
        let detail = text(&told["detail"]);
        assert!(detail.contains(r#""format"; the nearest is "layout" (json, kiro, spec_kit)"#), "{detail}");
        let told = app.get("/api/v1/specs/none/export?layout=markdown").await.refused(422, "invalid_query");
        let detail = text(&told["detail"]);
        assert!(["markdown", "json", "kiro", "spec_kit"].iter().all(|word| detail.contains(word)), "{detail}");
    }

    async fn what_clients_of_the_earlier_system_send_is_known(app: App) {
        let sandbox = app.sandbox().await;
        for list in [
            "/events?limit=10&offset=0&event_type=agent.started",
            "/trajectory?limit=10&direction=older",
        ] {
            app.get_as(&sandbox, list).await.expect(200);
        }
        for list in ["/api/v1/tasks?status=running&has_sandbox=true&phase_id=PHASE_IMPLEMENTATION&ticket_id=tkt-1&limit=100"] {
            app.get(list).await.expect(200);
        }
        let id = text(&app.post("/api/v1/projects", json!({ "name": "shop" })).await.expect(201)["id"]);
        app.get(&format!("/api/v1/specs?project={id}&limit=10")).await.expect(200);
        app.get(&format!("/api/v1/specs?project={id}&project_id={id}")).await.refused(422, "invalid_query");
    }
}

/// Whether a schema takes any text.
fn is_free(schema: &Value) -> bool {
    let is_text = schema["type"] == "string" || schema["type"] == json!(["string", "null"]);
    is_text && schema.get("enum").is_none() && schema.get("pattern").is_none()
}
