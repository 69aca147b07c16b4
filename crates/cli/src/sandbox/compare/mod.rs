//! `omoi sandbox compare`: sandboxes side by side, or a summary of the newest.

mod summary;
mod table;

use anyhow::Result;
use omoi_client::{Client, SandboxQuery};
use omoi_protocol::SandboxId;

use self::summary::{EVENTS_MAX, Summary};
use crate::{Context, page::collect, project::find_id};

/// Compare sandboxes: how each ended, what it cost and changed, and its events by type
///
/// One column for each sandbox; with two of them a further column says by how much the second differs. Without an id the newest
/// sandboxes are summarised with one row each, and their events are added up by type.
#[derive(Debug, clap::Args)]
pub struct Compare {
    /// The sandboxes to compare, as `omoi sandbox list` shows them
    #[arg(value_name = "ID")]
    ids: Vec<SandboxId>,
    /// Without ids: summarise only sandboxes of this project, by id or name
    #[arg(long, value_name = "PROJECT", conflicts_with = "ids")]
    project: Option<String>,
    /// Without ids: summarise this many of the newest
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "ids")]
    limit: u32,
}

impl Compare {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let are_named = !self.ids.is_empty();
        let ids =
            if are_named { self.ids } else { newest(client, self.project.as_deref(), self.limit).await? };
        let mut all = Vec::with_capacity(ids.len());
        for id in &ids {
            all.push(Summary::fetch(client, id).await?);
        }
        let render = if are_named { table::side_by_side } else { table::one_by_one };
        cx.out.answer(&all, |style| render(&all, style))?;
        if all.is_empty() && !cx.out.is_json() {
            cx.out.note("there are no sandboxes yet");
        }
        for summary in all.iter().filter(|summary| !summary.complete) {
            cx.out.note(&format!(
                "{} has more events; its newest {EVENTS_MAX} are counted",
                summary.sandbox_id
            ));
        }
        Ok(())
    }
}

async fn newest(client: &Client, project: Option<&str>, limit: u32) -> Result<Vec<SandboxId>> {
    let project_id = find_id(client, project).await?;
    let fetch = async |size, cursor| {
        let project_id = project_id.clone();
        client
            .sandbox_list(&SandboxQuery { project_id, limit: Some(size), cursor, ..SandboxQuery::default() })
            .await
    };
    let page = collect(limit as usize, fetch).await?;
    Ok(page.items.into_iter().map(|sandbox| sandbox.id).collect())
}
