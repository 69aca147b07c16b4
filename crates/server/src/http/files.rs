//! What a project's repository holds, as far as its mirror has it. A request fetches nothing: where there is no mirror
//! yet it asks for one, and whoever sent it comes back in a moment.

use std::{collections::BTreeSet, time::Duration};

use axum::http::StatusCode;
use omoi_protocol::project::Project;

use super::{ApiError, ApiResult, Shared};
use crate::git;

/// How long a request may look into a repository.
const LOOK_PATIENCE: Duration = Duration::from_secs(20);
/// A fetch begins within a second, and small ones end in it.
const COME_BACK: Duration = Duration::from_secs(2);

impl Shared {
    /// The paths of a project's default branch, and its commit, as they were last fetched.
    pub async fn files(&self, project: &Project) -> ApiResult<(String, BTreeSet<String>)> {
        let tip = match self.mirrors.default_tip(project).await {
            Ok(tip) => tip,
            Err(_) => return Err(self.fetched_first(project).await),
        };
        match tokio::time::timeout(LOOK_PATIENCE, self.mirrors.files(&project.id, &tip)).await {
            Ok(looked) => Ok((tip.to_string(), looked.map_err(unreadable)?)),
            Err(_) => {
                let detail = format!(
                    "the repository of project {} was not read within {LOOK_PATIENCE:?}",
                    project.name
                );
                Err(ApiError::invalid("repository_unreadable", detail))
            }
        }
    }

    /// Has the repository fetched, and says so; or why that could not be done the last time.
    async fn fetched_first(&self, project: &Project) -> ApiError {
        if project.repository_url.as_deref().is_none_or(str::is_empty) {
            return unreadable(git::Error::NoRepository(project.id.clone()));
        }
        match self.mirrors.want(&project.id).await {
            Ok(None) => {
                let detail = format!(
                    "the repository of project {} is being fetched; send this again in a moment",
                    project.name
                );
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "repository_not_fetched", detail)
                    .retry_after(COME_BACK)
            }
            Ok(Some(reason)) => ApiError::invalid("repository_unreadable", reason),
            Err(error) => ApiError::defect(&error.to_string()),
        }
    }
}

fn unreadable(error: git::Error) -> ApiError {
    ApiError::invalid("repository_unreadable", error.to_string())
}
