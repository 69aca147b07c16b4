//! Git over HTTP on a project's mirror: `/git/PROJECT.git`. A sandbox fetches everything of its project and pushes to
//! its own branch and to what is kept of it, by the rules of `domain::push`.
//!
//! The rules hold three times over. The list of wishes in front of a pack is read and judged here, before Git sees any
//! of it; Git is then shown no other ref than these (`receive.hideRefs`), and refuses to touch what it is not shown; and
//! our hook (`update.sh`), which runs while what was pushed is still in quarantine, looks once more at the ref and at
//! what the branch must still hold. Every push is an event of its sandbox, whether it was taken or not.

mod access;
mod body;
mod fetch;
mod pkt;
mod push;
mod turns;

use std::{path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Path, Query, Request, State},
    http::{HeaderValue, StatusCode, header, request::Parts},
    response::Response,
    routing::{get, post},
};
use omoi_protocol::sandbox::Sandbox;
use serde::Deserialize;

use crate::{
    config,
    git::{self, Mirrors, base_ref},
    http::Api,
};
use access::{Refused, Visit};
use turns::{Turn, Turns};

/// How long a visitor waits while as many are served as may be.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn routes(api: Api, mirrors: Mirrors, settings: config::Git) -> Router<Api> {
    let turns = Turns::new(settings.packs_max);
    let door = Door(Arc::new(Shared { api, mirrors, turns, settings }));
    Router::new()
        .route("/git/{repository}/info/refs", get(info_refs))
        .route("/git/{repository}/git-upload-pack", post(upload_pack))
        .route("/git/{repository}/git-receive-pack", post(receive_pack))
        .with_state(door)
}

/// What the handlers share.
#[derive(Clone)]
struct Door(Arc<Shared>);

struct Shared {
    api: Api,
    mirrors: Mirrors,
    turns: Turns,
    settings: config::Git,
}

impl std::ops::Deref for Door {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Service {
    service: Option<String>,
}

/// What there is to fetch, or where to push to.
async fn info_refs(
    State(door): State<Door>,
    Path(repository): Path<String>,
    request: Request,
) -> Result<Response, Refused> {
    let (parts, _) = request.into_parts();
    let visit = Visit::admit(&door.api, &parts, &repository).await?;
    let Query(Service { service }) = Query::try_from_uri(&parts.uri)
        .map_err(|bad| Refused::new(StatusCode::UNPROCESSABLE_ENTITY, bad.body_text()))?;
    let _turn = door.turn(&visit).await?;
    let mirror = door.ready(&visit).await?;
    let (service, call) = match service.as_deref() {
        Some("git-upload-pack") => ("git-upload-pack", fetch::call(&door, version(&parts))),
        Some("git-receive-pack") => ("git-receive-pack", push::call(&door, visit.pusher()?)?),
        _ => {
            let detail = "this server speaks Git's smart protocol only; use Git 1.6.6 or newer";
            return Err(Refused::new(StatusCode::FORBIDDEN, detail));
        }
    };
    let listed = call.args(["--stateless-rpc", "--http-backend-info-refs"]).arg(&mirror).run().await;
    if listed.is_err() {
        door.mirrors.suspect_by_hearsay(&visit.project.id).await?;
    }
    let mut body = Vec::new();
    // The second version has no need to say what it is about.
    if service == "git-receive-pack" || version(&parts) != Some("version=2") {
        pkt::push_line(&mut body, format!("# service={service}\n").as_bytes());
        body.extend_from_slice(b"0000");
    }
    body.extend(listed.map_err(git::Error::from)?);
    Ok(answer(&format!("application/x-{service}-advertisement"), body.into()))
}

async fn upload_pack(
    State(door): State<Door>,
    Path(repository): Path<String>,
    request: Request,
) -> Result<Response, Refused> {
    let (parts, body) = request.into_parts();
    let visit = Visit::admit(&door.api, &parts, &repository).await?;
    let turn = door.turn(&visit).await?;
    let mirror = door.mirrors.existing(&visit.project.id)?;
    fetch::serve(&door, &parts, body, mirror, turn, visit)
}

async fn receive_pack(
    State(door): State<Door>,
    Path(repository): Path<String>,
    request: Request,
) -> Result<Response, Refused> {
    let (parts, body) = request.into_parts();
    let visit = Visit::admit(&door.api, &parts, &repository).await?;
    visit.pusher()?;
    let turn = door.turn(&visit).await?;
    let mirror = door.mirrors.existing(&visit.project.id)?;
    let pushing = push::serve(door, parts.headers, body, visit, mirror, turn);
    // On its own, so that a client who goes away does not leave a push that is done and that nobody was told of.
    tokio::spawn(pushing).await.unwrap_or_else(|_| {
        Err(Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the push broke off; look where the branch is"))
    })
}

impl Door {
    async fn turn(&self, visit: &Visit) -> Result<Turn, Refused> {
        // Operators share what they have.
        let caller = visit.sandbox.as_ref().map_or("", |sandbox| sandbox.id.as_str());
        self.turns.take(caller, PATIENCE).await.ok_or_else(|| {
            let detail = "as many fetches and pushes run as git.packs_max allows; try again";
            Refused::new(StatusCode::SERVICE_UNAVAILABLE, detail)
        })
    }

    /// The mirror. Of a project whose sandboxes all run elsewhere, nobody has fetched it or made a branch before.
    async fn ready(&self, visit: &Visit) -> Result<PathBuf, Refused> {
        let project = &visit.project;
        if self.mirrors.existing(&project.id).is_err() {
            match self.mirrors.refresh(project).await {
                // There is a mirror, with nothing to begin at.
                Ok(_) | Err(git::Error::Empty { .. } | git::Error::NoDefaultBranch { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(Sandbox { id, branch_name: Some(branch), status, task_id, .. }) = &visit.sandbox
            && status.is_live()
            && self.mirrors.ref_tip(&project.id, &base_ref(id)).await?.is_none()
            && let Ok(tip) = self.mirrors.default_tip(project).await
        {
            let works = match task_id {
                Some(held) => self.api.store.dependency_works(held).await?,
                None => Vec::new(),
            };
            let tip = self.mirrors.start(project, branch, tip, &works).await?;
            self.mirrors.branch_create(project, branch, &tip, id).await?;
        }
        Ok(self.mirrors.existing(&project.id)?)
    }
}

/// Which version of the protocol the client asks for, of those that there are.
fn version(parts: &Parts) -> Option<&'static str> {
    let asked = parts.headers.get("git-protocol")?.to_str().ok()?;
    ["version=2", "version=1"].into_iter().find(|known| asked.split(':').any(|part| part == *known))
}

fn answer(kind: &str, body: Body) -> Response {
    let mut response = Response::new(body);
    if let Ok(kind) = HeaderValue::from_str(kind) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    response
}
