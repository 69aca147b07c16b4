//! Tokens, and whose they are.

use axum::{Json as Answer, extract::State, http::StatusCode};
use omoi_protocol::{
    Role, SandboxId, TokenId,
    page::Page,
    token::{NewToken, Token, TokenCreated},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    auth::{Admin, Anybody},
    extract::{Json, Path, Query},
    page::{self, Paging},
    problem::{ApiError, ApiResult},
    route::{Routes, routes},
};
use crate::store::Bearer;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list, create)).routes(routes!(revoke)).routes(routes!(whoami))
}

/// List operators' tokens
#[utoipa::path(get, path = "/api/v1/tokens", params(Paging), responses((status = 200, body = Page<Token>)), tag = "tokens")]
async fn list(
    State(api): State<Api>,
    _: Admin,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Token>>> {
    let limit = paging.limit()?;
    let rows = api.store.token_list(paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |token| token.id.to_string()))
}

/// Create an operator's token
///
/// The secret is in the answer and nowhere else.
#[utoipa::path(post, path = "/api/v1/tokens", request_body = NewToken, responses((status = 201, body = TokenCreated)), tag = "tokens")]
async fn create(
    State(api): State<Api>,
    who: Admin,
    Json(new): Json<NewToken>,
) -> ApiResult<(StatusCode, Answer<TokenCreated>)> {
    let actor = who.name();
    if new.expires_at.is_some_and(|end| end <= api.clock.now()) {
        return Err(ApiError::invalid("validation_failed", "expires_at lies in the past"));
    }
    Ok((StatusCode::CREATED, Answer(api.store.token_create(actor, new).await?)))
}

/// Revoke an operator's token
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", params(("id" = TokenId, Path)), responses((status = 200, body = Token)), tag = "tokens")]
async fn revoke(State(api): State<Api>, who: Admin, Path(id): Path<TokenId>) -> ApiResult<Answer<Token>> {
    let token = api.store.token_revoke(who.name(), &id).await?;
    api.gate.doubt_all();
    Ok(Answer(token))
}

#[derive(Debug, Serialize, ToSchema)]
struct Whoami {
    /// `operator` or `sandbox`.
    kind: &'static str,
    name: String,
    role: Option<Role>,
    sandbox_id: Option<SandboxId>,
}

/// Show whose token it is
#[utoipa::path(get, path = "/api/v1/whoami", responses((status = 200, body = Whoami)), tag = "tokens")]
async fn whoami(who: Anybody) -> Answer<Whoami> {
    let name = who.name().to_owned();
    Answer(match who.bearer() {
        Bearer::Operator { role, .. } => {
            Whoami { kind: "operator", name, role: Some(*role), sandbox_id: None }
        }
        Bearer::Sandbox { id, .. } => {
            Whoami { kind: "sandbox", name, role: None, sandbox_id: Some(id.clone()) }
        }
    })
}
