//! Who comes to a repository. A sandbox reaches its own project's alone; operators may read all.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use omoi_protocol::{ProjectId, project::Project, sandbox::Sandbox};

use crate::{
    git,
    http::{Api, ApiError, Caller, Secret, Watched, bearer, request_id},
    store::{self, Bearer},
};

pub struct Visit {
    pub project: Project,
    /// None for an operator.
    pub sandbox: Option<Sandbox>,
    /// A transfer that outlasts it is cut off.
    pub token: Watched,
}

impl Visit {
    pub async fn admit(api: &Api, parts: &Parts, repository: &str) -> Result<Self, Refused> {
        let secret = secret(&parts.headers).map(Secret::Token);
        let entered = api.enter(&parts.extensions, secret.clone()).await;
        let bearer = entered.map_err(|error| unwelcome(&parts.headers, error))?;
        let token = api.watch(&secret.ok_or_else(Watched::refusal)?);
        let project = repository.strip_suffix(".git").and_then(|id| id.parse::<ProjectId>().ok());
        let project = project.ok_or_else(|| not_there(repository))?;
        let sandbox = match &*bearer {
            Bearer::Sandbox { id, .. } => {
                let sandbox = api.store.sandbox_get(id).await?;
                // Whether another project exists is not for a sandbox to know.
                if sandbox.project_id.as_ref() != Some(&project) {
                    let detail = "the token belongs to a sandbox of another project";
                    return Err(Refused::new(StatusCode::FORBIDDEN, detail));
                }
                Some(sandbox)
            }
            Bearer::Operator { .. } => {
                Caller::new(bearer.clone()).viewer()?;
                None
            }
        };
        match api.store.project_get(&project).await {
            Ok(project) => Ok(Self { project, sandbox, token }),
            Err(store::Error::NotFound { .. }) => Err(not_there(repository)),
            Err(error) => Err(error.into()),
        }
    }

    /// Only sandboxes push: what people have to say goes to the far repository.
    pub fn pusher(&self) -> Result<&Sandbox, Refused> {
        self.sandbox.as_ref().ok_or_else(|| {
            let detail = "only a sandbox pushes here; push to the project's own repository instead";
            Refused::new(StatusCode::FORBIDDEN, detail)
        })
    }
}

/// As a bearer, or as the password of a login for what can send nothing else, whatever the user is called. A login
/// without a password has the token in the user's place.
fn secret(headers: &HeaderMap) -> Option<String> {
    if let Some(secret) = bearer(headers) {
        return Some(secret.to_owned());
    }
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    let login = STANDARD.decode(encoded.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let login = String::from_utf8(login).ok()?;
    let (user, password) = login.split_once(':')?;
    Some(if password.is_empty() { user } else { password }.to_owned())
}

/// Git answers a 401 by asking for a login, and shows why only if it was given one. Whoever has sent a bearer's token has
/// no other, and is told at once.
fn unwelcome(headers: &HeaderMap, error: ApiError) -> Refused {
    let refused = Refused::from(error);
    match refused.status {
        StatusCode::UNAUTHORIZED if bearer(headers).is_some() => {
            Refused { status: StatusCode::FORBIDDEN, ..refused }
        }
        _ => refused,
    }
}

fn not_there(repository: &str) -> Refused {
    Refused::new(StatusCode::NOT_FOUND, format!("there is no repository {repository:?} here"))
}

/// An answer in plain text, which Git shows to people.
#[derive(Debug)]
pub struct Refused {
    status: StatusCode,
    detail: String,
}

impl Refused {
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self::new(error.status(), error.detail())
    }
}

impl From<store::Error> for Refused {
    fn from(error: store::Error) -> Self {
        ApiError::from(error).into()
    }
}

impl From<git::Error> for Refused {
    fn from(error: git::Error) -> Self {
        let status = match &error {
            git::Error::Busy { .. } => StatusCode::SERVICE_UNAVAILABLE,
            git::Error::Io { .. } | git::Error::Git(_) => {
                tracing::error!(request.id = request_id::current(), %error, "Git failed a sandbox");
                let detail =
                    "the server could not do this; its log says why under this request's X-Request-ID";
                return Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail);
            }
            _ => StatusCode::CONFLICT,
        };
        Self::new(status, error.to_string())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(format!("{}\n", self.detail)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"omoi\""));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_as_a_bearer_or_in_a_login() {
        for (value, found) in [
            ("Bearer t0ken", Some("t0ken")),
            ("Basic dXNlcjp0MGtlbg==", Some("t0ken")),
            ("basic dDBrZW46", Some("t0ken")),
            ("Basic OnQwa2Vu", Some("t0ken")),
            ("Basic !!", None),
            ("Basic dDBrZW4=", None),
            ("Digest x", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(value))]);
            assert_eq!(secret(&headers).as_deref(), found, "{value}");
        }
        assert_eq!(secret(&HeaderMap::new()), None);
    }
}
