//! The server that the demo runs against: the one that runs already, or one of its own.

use std::path::Path;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use omoi_client::{Client, Error, Retry};
use omoi_protocol::{
    Role,
    token::{NewToken, TokenCreated},
};
use omoi_server::{
    Server,
    clock::Clock,
    config::{Config, Flag},
    git::Mirrors,
    store::Store,
    telemetry,
};
use tempfile::TempDir;

use super::proof::{Branch, FILE};
use crate::{
    Context,
    connect::Connect,
    failure::{REFUSED, Stop},
    run::Errand,
    settings::Settings,
};

const ACTOR: &str = "demo";
const TOKEN_NAME: &str = "omoi demo";
const TOKENS_MAX: usize = 10_000;
const TOKEN_LIFE: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

pub struct House {
    pub client: Client,
    pub config: Config,
    pub own: Option<Own>,
}

/// A server in this process.
pub struct Own {
    server: Server,
    pub url: String,
    pub token: String,
    /// When the token ends, unless it stays.
    pub token_until: Option<Timestamp>,
    /// Removed at the end.
    dir: Option<TempDir>,
    _telemetry: telemetry::Guard,
}

impl House {
    /// One that runs, if any does.
    pub async fn running(connect: &Connect, config: Config) -> Result<Option<Self>> {
        let once = Retry { attempts_max: 1, ..Retry::default() };
        // Without a token it is still known whether there is a server that asks for one.
        let asked = connect.client_or_stranger()?.with_retry(once).whoami().await;
        match asked {
            Ok(_) => Ok(Some(Self { client: connect.client()?, config, own: None })),
            Err(Error::Unreachable { .. } | Error::TimedOut { .. }) => Ok(None),
            Err(error) if error.status() == Some(401) => {
                let there =
                    format!("a server runs at {}, and there is no valid token to ask it with", connect.url());
                let hint = "set OMOI_TOKEN (`omoi token create --role operator` makes one), or name a --data-dir of the demo's own";
                Err(Stop::new(REFUSED, there).hint(hint).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// One of its own. What it logs is kept to what went wrong, so that it does not drown the demo.
    pub async fn start(config: Config, dir: Option<TempDir>) -> Result<Self> {
        let filter = if config.log.filter == "info" { "warn" } else { &config.log.filter };
        let otlp_endpoint = config.telemetry.otlp_endpoint.as_deref();
        let guard = telemetry::init(config.log.format, filter, otlp_endpoint, &config.secrets())?;
        let server = Server::start(config.clone(), Clock::Real).await?;
        let (token, token_until) = match &server.first_token {
            Some(token) => (token.clone(), None),
            None => {
                let made = renew_token(&server.store).await?;
                (made.secret, made.token.expires_at)
            }
        };
        let url = format!("http://{}", server.address);
        let client = Client::new(&url, &token)?;
        let own = Own { server, url, token, token_until, dir, _telemetry: guard };
        Ok(Self { client, config, own: Some(own) })
    }

    /// One of its own in a directory that is removed with it, whatever else is configured.
    pub async fn passing(cx: &Context, settings: &Settings, prefix: &str) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix(prefix).tempdir().context("no directory of its own")?;
        let data_dir = dir.path().join("data").display().to_string();
        let own = [
            ("data_dir", &*data_dir),
            ("server.listen", "127.0.0.1:0"),
            ("server.role", "all"),
            ("database.url", ""),
        ];
        let flags = own.map(|(key, value)| Flag { name: "--exit", key, value: value.to_owned() });
        let config = settings.resolve_with(cx, flags.into())?.config;
        Self::start(config, Some(dir)).await
    }

    /// The branch of a run, where the mirror is on this machine.
    pub async fn branch(&self, errand: &Errand, base: Option<&str>) -> Result<Option<Branch>> {
        let mirrors = std::path::absolute(self.config.data_dir.join("mirrors"))?;
        if !mirrors.join(format!("{}.git", errand.project.id)).join("HEAD").is_file() {
            return Ok(None);
        }
        let mirrors = Mirrors::new(&self.config)?;
        let (id, name) = (&errand.project.id, errand.sandbox.branch_name.as_deref().unwrap_or_default());
        let Some(tip) = mirrors.branch_tip(id, name).await? else { return Ok(Some(Branch::default())) };
        let call = |name| mirrors.git().call(&mirrors.path(id), name);
        let beyond = base.map(|base| format!("^{base}"));
        let listed = call("rev-list").arg(tip.as_str()).args(beyond).arg("--").run().await?;
        let commits = String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect();
        let (code, _) = call("cat-file").args(["-e", &format!("{tip}:{FILE}")]).run_for(&[1, 128]).await?;
        Ok(Some(Branch { commits, has_file: code == 0 }))
    }

    /// Stops the server, if it is our own.
    pub async fn leave(self, cx: &Context) -> Result<()> {
        match self.own {
            Some(own) => cx.signals.unless_again(own.stop()).await,
            None => Ok(()),
        }
    }

    /// Whether nothing will be left of it.
    pub fn is_passing(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.dir.is_some())
    }

    pub fn mirrors(&self) -> Option<std::path::PathBuf> {
        std::path::absolute(self.config.data_dir.join("mirrors")).ok()
    }
}

impl Own {
    pub async fn stop(self) -> Result<()> {
        let Self { server, dir, .. } = self;
        server.stop().await;
        let Some(dir) = dir else { return Ok(()) };
        let path = dir.path().to_owned();
        dir.close().with_context(|| format!("cannot remove {}", Path::new(&path).display()))
    }
}

/// The secret of the demo before cannot be shown again; so its token goes, and there is one at a time.
async fn renew_token(store: &Store) -> Result<TokenCreated> {
    for token in store.token_list(None, TOKENS_MAX).await? {
        if token.name == TOKEN_NAME && token.revoked_at.is_none() {
            store.token_revoke(ACTOR, &token.id).await?;
        }
    }
    let expires_at = Some(Clock::Real.now() + TOKEN_LIFE);
    let new = NewToken { name: TOKEN_NAME.to_owned(), role: Role::Admin, expires_at };
    Ok(store.token_create(ACTOR, new).await?)
}
