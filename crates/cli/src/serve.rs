//! `omoi serve`: the server, until somebody stops it.

use anyhow::Result;
use clap::ValueEnum;
use omoi_server::{
    Server,
    clock::Clock,
    config::{Config, Resolved, ServerRole},
    telemetry,
};
use owo_colors::Style as Paint;
use serde::Serialize;

use crate::{
    Context,
    out::Style,
    settings::{Settings, flag},
    table::fields,
};

const EXAMPLES: &str = "\
Examples:
  omoi serve
  omoi serve --data-dir /srv/omoi --listen 0.0.0.0:18000
  OMOI_DATABASE_URL=postgres://omoi:secret@db/omoi omoi serve --role api
  omoi serve --listen 127.0.0.1:0 --json > omoi.json &     address and first token, for a script

Every setting has a key in the configuration file and a variable in the environment:
`omoi config default` lists them all. Ctrl-C or SIGTERM stop the server once its work is
finished; a second one stops it at once.";

/// Run the server
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Address to listen on; port 0 takes a free one [default: 127.0.0.1:18000] [env: OMOI_LISTEN]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Which parts run in this process [default: all] [env: OMOI_ROLE]
    #[arg(long)]
    role: Option<Role>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Role {
    /// Everything
    All,
    /// Requests and live streams
    Api,
    /// The loops: tasks are dispatched, sandboxes made, watched and removed
    Orchestrator,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Api => "api",
            Self::Orchestrator => "orchestrator",
        }
    }
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let flags = [
            flag("--listen", "server.listen", self.listen.as_deref()),
            flag("--role", "server.role", self.role.map(Role::word)),
        ];
        let Resolved { config, ineffective, .. } =
            self.settings.resolve_with(cx, flags.into_iter().flatten().collect())?;
        let _telemetry = telemetry::init(
            config.log.format,
            &config.log.filter,
            config.telemetry.otlp_endpoint.as_deref(),
            &config.secrets(),
        )?;
        for setting in &ineffective {
            tracing::warn!(setting = setting.name, "{setting}");
        }
        omoi_server::crash::arm((cx.env)("OMOI_CRASH_AT").as_deref());
        let server = Server::start(config.clone(), Clock::Real).await?;
        let banner = Banner::new(&config, &server);
        cx.out.item(&banner, |style| banner.text(style))?;
        let asked = cx.signals.next().await;
        tracing::info!("stopping: {asked}; once more stops at once");
        cx.signals
            .unless_again(async {
                server.stop().await;
                Ok(())
            })
            .await
    }
}

/// What runs, where, and on what.
#[derive(Serialize)]
struct Banner {
    version: &'static str,
    url: String,
    role: &'static str,
    store: String,
    live: &'static str,
    sandboxes: &'static str,
    model: String,
    /// Shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_token: Option<String>,
    #[serde(skip)]
    warning: Option<&'static str>,
    #[serde(skip)]
    data_dir: String,
}

impl Banner {
    fn new(config: &Config, server: &Server) -> Self {
        let beyond = !server.address.ip().is_loopback();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            url: format!("http://{}", server.address),
            role: match config.server.role {
                ServerRole::All => "all: requests, live streams and loops",
                ServerRole::Api => "api: requests and live streams; loops run elsewhere",
                ServerRole::Orchestrator => "orchestrator: loops; requests are served elsewhere",
            },
            store: server.store.name(),
            live: if server.store.is_shared() {
                "announced through PostgreSQL, to every process on it"
            } else {
                "in this process"
            },
            sandboxes: match config.server.role {
                ServerRole::Api => "made elsewhere",
                _ => "local: Linux namespaces on this machine (`omoi doctor` tries each layer)",
            },
            model: model(config),
            first_token: server.first_token.clone(),
            warning: beyond.then_some(
                "other machines can connect, and this address has no TLS: put a proxy that has it in front",
            ),
            data_dir: config.data_dir.display().to_string(),
        }
    }

    fn text(&self, style: Style) -> String {
        let bold = Paint::new().bold();
        let parts = fields([
            ("  role", Some(self.role.to_owned())),
            ("  store", Some(self.store.clone())),
            ("  live", Some(self.live.to_owned())),
            ("  sandboxes", Some(self.sandboxes.to_owned())),
            ("  model", Some(self.model.clone())),
            ("  warning", self.warning.map(str::to_owned)),
        ]);
        let token = match &self.first_token {
            Some(token) => format!(
                "Operator token, with every right, shown this once:\n\n  {}\n\n\
                 To use it: export OMOI_URL={} OMOI_TOKEN={token}",
                style.paint(token, bold),
                self.url
            ),
            None => format!(
                "Another operator token: omoi token create --data-dir {} --role operator --name NAME",
                self.data_dir
            ),
        };
        format!("Omoi {} listens on {}\n\n{parts}\n{token}\n", self.version, style.paint(&self.url, bold))
    }
}

/// Which model APIs sandboxes can call through the server.
fn model(config: &Config) -> String {
    let model = &config.model;
    let places = [
        (&model.anthropic_api_key, "Anthropic", &model.anthropic_base_url),
        (&model.openai_api_key, "OpenAI", &model.openai_base_url),
    ];
    let with_key = places.iter().filter(|(key, ..)| key.expose().is_some());
    let named: Vec<String> = with_key.map(|(_, name, base)| format!("{name} at {base}")).collect();
    if named.is_empty() {
        return "none: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or let attached workers bring their own"
            .to_owned();
    }
    named.join(", ")
}
