//! Reaching a server: its address and the operator's token.

use anyhow::Result;
use omoi_client::Client;

use crate::failure::{REFUSED, Stop};

const DEFAULT_URL: &str = "http://127.0.0.1:18000";

#[derive(Debug, clap::Args)]
pub struct Connect {
    /// Address of the server
    #[arg(
        long,
        env = "OMOI_URL",
        default_value = DEFAULT_URL,
        global = true,
        help_heading = "Connection",
        value_name = "URL"
    )]
    url: String,
    /// Operator token; better given as OMOI_TOKEN, since other users can read command lines
    #[arg(
        long,
        env = "OMOI_TOKEN",
        hide_env_values = true,
        global = true,
        help_heading = "Connection",
        value_name = "TOKEN"
    )]
    token: Option<String>,
}

impl Connect {
    pub fn client(&self) -> Result<Client> {
        let token = self.token().ok_or_else(|| {
            Stop::new(REFUSED, "there is no token to ask the server with").hint(
                "set OMOI_TOKEN to the one that `omoi serve` showed at its first start, or make one on the \
                 server's machine with `omoi token create --role operator`",
            )
        })?;
        Ok(Client::new(self.url(), token)?)
    }

    /// Without a token, one that is turned away wherever there is a server.
    pub fn client_or_stranger(&self) -> Result<Client> {
        Ok(Client::new(self.url(), self.token().unwrap_or("none"))?)
    }

    pub fn url(&self) -> &str {
        if self.url.trim().is_empty() { DEFAULT_URL } else { &self.url }
    }

    fn token(&self) -> Option<&str> {
        self.token.as_deref().map(str::trim).filter(|token| !token.is_empty())
    }
}
