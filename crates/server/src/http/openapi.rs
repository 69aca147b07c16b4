//! The OpenAPI document, made from the code.

use std::{collections::BTreeSet, sync::OnceLock};

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use omoi_protocol::problem::{CONTENT_TYPE, Problem};
use utoipa::{
    OpenApi, PartialSchema, ToSchema,
    openapi::{
        Content, ContentBuilder, OpenApi as Api, Ref, RefOr, Required, ResponseBuilder, Schema,
        path::Operation,
        security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme},
    },
};
use utoipa_axum::router::OpenApiRouter;

use super::{
    NOUNS,
    auth::Stranger,
    health,
    route::{Routes, routes},
    session,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Omoi",
        description = "Runs coding agents in isolated sandboxes, watches them while they work, and hands back proven branches.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    security(("token" = []), ("session" = []))
)]
struct Document;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(document))
}

/// Show this document
#[utoipa::path(get, path = "/api/v1/openapi.json", responses((status = 200, body = serde_json::Value, content_type = "application/json")), tag = "health", security(()))]
async fn document(_: Stranger) -> Response {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(openapi_json).as_str();
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// All operations as their handlers describe them.
pub fn described() -> Api {
    let document = health::routes().describe(OpenApiRouter::with_openapi(Document::openapi()));
    NOUNS.iter().fold(document, |all, noun| noun().describe(all)).split_for_parts().1
}

pub fn openapi_json() -> String {
    let mut api = described();
    let components = api.components.get_or_insert_default();
    components.schemas.insert("Problem".to_owned(), Problem::schema());
    let mut schemas = Vec::new();
    Problem::schemas(&mut schemas);
    components.schemas.extend(schemas);
    components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    let cookie = ApiKeyValue::with_description(
        session::COOKIE,
        "Of a browser that is signed in; changes need the header `X-Omoi-Csrf: 1` as well",
    );
    components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    let optional = all_optional(&api);
    for item in api.paths.paths.values_mut() {
        item.get.iter_mut().for_each(|operation| finish(operation, Changes::Nothing));
        let changing = [&mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        for operation in changing.into_iter().flatten() {
            relax(operation, &optional);
            finish(operation, Changes::Something);
        }
    }
    let mut text = api.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// The types of bodies without a required field.
fn all_optional(api: &Api) -> BTreeSet<String> {
    let schemas = api.components.iter().flat_map(|components| &components.schemas);
    let optional = schemas.filter(|(_, schema)| match schema {
        RefOr::T(Schema::Object(object)) => object.required.is_empty() && !object.properties.is_empty(),
        _ => false,
    });
    optional.map(|(name, _)| format!("#/components/schemas/{name}")).collect()
}

/// Such a body may be left out.
fn relax(operation: &mut Operation, optional: &BTreeSet<String>) {
    let Some(RefOr::T(body)) = &mut operation.request_body else { return };
    let is_optional = body.content.values().any(|content| match content {
        RefOr::T(Content { schema: Some(RefOr::Ref(to)), .. }) => optional.contains(&to.ref_location),
        _ => false,
    });
    if is_optional {
        body.required = Some(Required::False);
    }
}

/// Whether an operation changes what is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changes {
    Nothing,
    Something,
}

/// A name of its own, `tasks_list`, and the refusals that follow from what the operation takes and does.
fn finish(operation: &mut Operation, changes: Changes) {
    let tag = operation.tags.as_ref().and_then(|tags| tags.first()).cloned().unwrap_or_default();
    operation.operation_id = operation.operation_id.take().map(|id| format!("{tag}_{id}"));
    describe_problems(operation, changes);
}

fn describe_problems(operation: &mut Operation, changes: Changes) {
    let mut statuses =
        vec![("421", "Addressed to a name that is not this server's"), ("503", "Not available; try again")];
    let open = operation.security.as_ref().is_some_and(|needs| !needs.is_empty());
    if !open {
        statuses.extend([
            ("401", "No valid token"),
            ("403", "Not allowed with this token, or from this page"),
            ("429", "Too much at once; try again"),
        ]);
    } else {
        statuses.push(("403", "From a page that may not call"));
    }
    if operation.parameters.as_ref().is_some_and(|params| !params.is_empty()) {
        statuses.extend([("404", "No such thing"), ("422", "A parameter or the body fails validation")]);
    }
    if operation.request_body.is_some() {
        statuses.extend([
            ("400", "The body is not JSON"),
            ("404", "No such thing"),
            ("408", "The body arrived too slowly"),
            ("413", "Too large"),
            ("415", "The body is not said to be JSON"),
            ("422", "A parameter or the body fails validation"),
        ]);
    }
    if operation.responses.responses.contains_key("101") {
        statuses.push(("400", "Not a WebSocket handshake"));
    }
    if changes == Changes::Something {
        statuses.push(("409", "Not as things stand"));
        statuses.push(("507", "The disk is full; try again once there is room"));
    }
    for (status, description) in statuses {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let response = ResponseBuilder::new().description(description).content(CONTENT_TYPE, content).build();
        operation.responses.responses.entry(status.to_owned()).or_insert(RefOr::T(response));
    }
}
