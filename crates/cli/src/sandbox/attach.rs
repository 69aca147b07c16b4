//! Joining a sandbox that somebody runs elsewhere.

use std::time::Duration;

use anyhow::Result;
use omoi_client::Client;
use omoi_protocol::{SandboxId, TaskId, sandbox::AttachSandbox};

use super::show::pairs;
use crate::{Context, table::fields, text::parse_span};

/// Join a sandbox that you run yourself; prints its token, this once
///
/// The token reports for this sandbox and for nothing else. Give the worker OMOI_URL and this token; it posts its
/// events to /api/v1/sandboxes/ID/events and asks for messages at /api/v1/sandboxes/ID/messages.
#[derive(Debug, clap::Args)]
pub struct Attach {
    /// Name it yourself
    #[arg(long, value_name = "ID")]
    id: Option<SandboxId>,
    /// A pending task to take with it
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    /// How long it holds its task after it was last heard of, as 90s or 30m; by default as the server is configured
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    lease: Option<Duration>,
    /// Something to know it by; may be given more than once
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
}

pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not NAME=VALUE")),
    }
}

impl Attach {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let labels = self.label.into_iter().collect();
        let lease_seconds = self.lease.map(|lease| i64::try_from(lease.as_secs()).unwrap_or(i64::MAX));
        let new = AttachSandbox { sandbox_id: self.id, task_id: self.task, lease_seconds, labels };
        let attached = client.sandbox_attach(&new).await?;
        cx.out.answer(&attached, |_| {
            fields(pairs(&attached.sandbox).into_iter().chain([("token", Some(attached.token.clone()))]))
        })?;
        if !cx.out.is_json() {
            cx.out.note("the token is shown this once");
        }
        Ok(())
    }
}
