//! `omoi token`: operator tokens, made and revoked on the database itself, with or without a running server.

use std::time::Duration;

use anyhow::Result;
use omoi_protocol::{
    Role, TokenId,
    token::{NewToken, Token},
};
use omoi_server::clock::Clock;

use crate::{
    Context,
    args::word,
    database,
    settings::Settings,
    table::{Item, Table, maybe},
    text::{parse_span, relative},
};

/// Who the audit trail names for what is done here.
const ACTOR: &str = "command line";
const TOKENS_MAX: usize = 10_000;

const EXAMPLES: &str = "\
Examples:
  export OMOI_TOKEN=$(omoi token create --role operator --name laptop)
  omoi token create --role viewer --name dashboard --expires-in 30d
  omoi token revoke tok-...

These work on the database directly, so whoever can read the data directory can use them.";

/// Make, list and revoke operator tokens
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Make a token and print it, alone, this once
    Create {
        /// What it allows: viewer reads, operator acts, admin also manages tokens and reads the audit trail
        #[arg(long, value_parser = word!(Role), ignore_case = true)]
        role: Role,
        /// Who or what it is for
        #[arg(long, default_value = "command line")]
        name: String,
        /// When it ends, such as 12h or 30d; without this, when it is revoked
        #[arg(long, value_name = "DURATION", value_parser = parse_span)]
        expires_in: Option<Duration>,
    },
    /// List tokens; their secrets are not kept
    List,
    /// Make a token useless for good; a running server turns it away within a second
    Revoke {
        /// As `omoi token list` shows it
        id: TokenId,
    },
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let config = self.settings.resolve(cx)?.config;
        match self.verb {
            Verb::Create { role, name, expires_in } => {
                let store = database::open_or_make(config).await?;
                let expires_at = expires_in.map(|span| Clock::Real.now() + span);
                let created = store.token_create(ACTOR, NewToken { name, role, expires_at }).await?;
                cx.out.answer(&created, |_| created.secret.clone())
            }
            Verb::List => {
                let tokens = database::open_to_read(config).await?.token_list(None, TOKENS_MAX).await?;
                cx.out.answer(&tokens, |style| {
                    let header = ["id", "name", "role", "state", "created", "expires"];
                    tokens.iter().fold(Table::new(style, &header), row).render()
                })
            }
            Verb::Revoke { id } => {
                let token = database::open(config).await?.token_revoke(ACTOR, &id).await?;
                cx.out.answer(&token, |_| format!("revoked {} ({})", token.id, token.name))
            }
        }
    }
}

fn row(table: Table, token: &Token) -> Table {
    let now = Clock::Real.now();
    let state = match token {
        Token { revoked_at: Some(_), .. } => "revoked",
        Token { expires_at: Some(at), .. } if *at <= now => "expired",
        _ => "valid",
    };
    table.row([
        token.id.to_string().into(),
        token.name.as_str().into(),
        Item::Word(token.role.as_str()),
        Item::Word(state),
        relative(now, token.created_at).into(),
        maybe(token.expires_at.map(|at| relative(now, at))),
    ])
}
