//! `omoi agent`: agents that somebody runs elsewhere.

use anyhow::Result;
use omoi_protocol::agent::Agent;
use omoi_server::clock::Clock;

use crate::{
    Context,
    connect::Connect,
    page::{Limit, collect},
    table::{Item, Table, maybe},
    text::relative,
};

/// List attached agents
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List the agents that somebody runs elsewhere, and when each was last heard of
    List {
        #[command(flatten)]
        limit: Limit,
    },
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let client = self.connect.client()?;
        let Verb::List { limit } = self.verb;
        let fetch = async |size, cursor: Option<String>| client.agent_list(size, cursor.as_deref()).await;
        let page = collect(limit.get(), fetch).await?;
        cx.out.answer(&page, |style| {
            let header = ["id", "name", "type", "status", "heartbeat", "capabilities"];
            page.items.iter().fold(Table::new(style, &header), row).render()
        })?;
        limit.tell(cx, &page);
        Ok(())
    }
}

fn row(table: Table, agent: &Agent) -> Table {
    table.row([
        agent.id.to_string().into(),
        agent.name.as_str().into(),
        agent.agent_type.as_str().into(),
        Item::Word(agent.status.as_str()),
        maybe(agent.last_heartbeat_at.map(|at| relative(Clock::Real.now(), at))),
        agent.capabilities.join(", ").into(),
    ])
}
