//! `omoi audit`: who did what, and whether anybody has changed the record of it.

use anyhow::Result;
use omoi_protocol::token::AuditEntry;
use omoi_server::clock::Clock;

use crate::{
    Context,
    connect::Connect,
    database,
    failure::{FAILED, Stop},
    page::{Limit, collect},
    settings::Settings,
    table::{Table, number},
    text::relative,
};

const EXAMPLES: &str = "\
Examples:
  omoi audit verify --data-dir /srv/omoi     on the database; exit code 1 when the trail was changed
  omoi audit list --limit 20                 from the server; takes an admin's token";

/// Read the audit trail, or check that nobody changed it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Follow the chain of hashes from the first line; works on the database directly
    Verify {
        #[command(flatten)]
        settings: Settings,
    },
    /// List who did what, newest first; asks the server
    List {
        #[command(flatten)]
        limit: Limit,
        #[command(flatten)]
        connect: Connect,
    },
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        match self.verb {
            Verb::Verify { settings } => verify(cx, &settings).await,
            Verb::List { limit, connect } => {
                let client = connect.client()?;
                let fetch =
                    async |size, cursor: Option<String>| client.audit_list(size, cursor.as_deref()).await;
                let page = collect(limit.get(), fetch).await?;
                cx.out.answer(&page, |style| {
                    let header = ["n", "when", "who", "did", "to", "detail"];
                    page.items.iter().fold(Table::new(style, &header), row).render()
                })?;
                limit.tell(cx, &page);
                Ok(())
            }
        }
    }
}

async fn verify(cx: &Context, settings: &Settings) -> Result<()> {
    let store = database::open_to_read(settings.resolve(cx)?.config).await?;
    let verdict = store.audit_verify().await?;
    cx.out.outlast_reader();
    cx.out.answer(&verdict, |_| match verdict.broken_at {
        None => format!("{} entries, each as it was written", verdict.entries),
        Some(n) => {
            format!("the first {} entries are as they were written; entry {n} is not", verdict.entries)
        }
    })?;
    match verdict.broken_at {
        None => Ok(()),
        Some(n) => Err(Stop::new(FAILED, format!("the audit trail was changed at entry {n}"))
            .hint("compare it with a backup: entries before this one can be trusted")
            .into()),
    }
}

fn row(table: Table, entry: &AuditEntry) -> Table {
    table.row([
        number(&entry.n),
        relative(Clock::Real.now(), entry.at).into(),
        entry.actor.as_str().into(),
        entry.action.as_str().into(),
        format!("{} {}", entry.entity_type, entry.entity_id).into(),
        entry.detail.to_string().into(),
    ])
}
