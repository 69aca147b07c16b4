//! `omoi whoami`: whom the server takes us for.

use anyhow::Result;

use crate::{Context, connect::Connect, table::fields};

/// Say whom the server takes you for, and what you may do
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    connect: Connect,
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let client = self.connect.client()?;
        let me = client.whoami().await?;
        cx.out.answer(&me, |_| {
            fields([
                ("kind", Some(me.kind.clone())),
                ("name", Some(me.name.clone())),
                ("role", me.role.map(|role| role.to_string())),
                ("sandbox", me.sandbox_id.as_ref().map(ToString::to_string)),
                ("server", Some(client.url().to_owned())),
            ])
        })
    }
}
