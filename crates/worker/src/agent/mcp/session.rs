//! A conversation with one server: agreeing on the protocol, asking for its tools, calling them.

use std::{collections::BTreeMap, path::Path, time::Duration};

use omoi_protocol::launch::McpServer;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::{error::Error, http::Address, stdio::Program};

/// The newest version that is spoken here; a server may answer with an older one, whose tools are the same.
const PROTOCOL: &str = "2025-06-18";
const PAGES_MAX: usize = 50;

pub struct Session {
    link: Link,
}

enum Link {
    Program(Program),
    Address(Address),
}

/// A tool as its server tells of it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub input_schema: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agreed {
    protocol_version: String,
    #[serde(default)]
    capabilities: Capabilities,
}

#[derive(Default, Deserialize)]
struct Capabilities {
    tools: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolPage {
    tools: Vec<Tool>,
    next_cursor: Option<String>,
}

impl Session {
    pub async fn open(
        server: &McpServer,
        env: &BTreeMap<String, String>,
        cwd: &Path,
    ) -> Result<(Self, Vec<Tool>), Error> {
        let link = match (&server.command, &server.url) {
            (Some(program), None) => Link::Program(Program::start(server, program, env, cwd)?),
            (None, Some(url)) => Link::Address(Address::new(url, env)?),
            _ => return Err(Error::Neither),
        };
        let session = Self { link };
        let has_tools = session.agree().await?;
        let tools = if has_tools { session.tools().await? } else { Vec::new() };
        Ok((session, tools))
    }

    /// What the tool gives, as the protocol has it.
    pub async fn call(&self, tool: &str, input: &Value, limit: Duration) -> Result<Value, Error> {
        let called = timeout(limit, async {
            let params = json!({ "name": tool, "arguments": input });
            match (self.request("tools/call", &params).await, &self.link) {
                // Asked once more when everything has been agreed on anew: it has not heard of the call.
                (Err(Error::SessionEnded), Link::Address(address)) => {
                    address.forget();
                    self.agree().await?;
                    self.request("tools/call", &params).await
                }
                (result, _) => result,
            }
        });
        called.await.unwrap_or(Err(Error::Silent(limit)))
    }

    /// Says whether there are tools.
    async fn agree(&self) -> Result<bool, Error> {
        let client = json!({ "name": "omoi", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client });
        let agreed: Agreed = self.ask("initialize", &params).await?;
        if let Link::Address(address) = &self.link {
            address.agree_version(&agreed.protocol_version);
        }
        self.notify("notifications/initialized", &json!({})).await?;
        Ok(agreed.capabilities.tools.is_some())
    }

    async fn tools(&self) -> Result<Vec<Tool>, Error> {
        let (mut tools, mut params) = (Vec::new(), json!({}));
        for _ in 0..PAGES_MAX {
            let page: ToolPage = self.ask("tools/list", &params).await?;
            tools.extend(page.tools);
            match page.next_cursor {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => break,
            }
        }
        Ok(tools)
    }

    async fn ask<T: for<'de> Deserialize<'de>>(&self, method: &str, params: &Value) -> Result<T, Error> {
        let result = self.request(method, params).await?;
        serde_json::from_value(result)
            .map_err(|error| Error::Garbled { method: method.to_owned(), what: error.to_string() })
    }

    async fn request(&self, method: &str, params: &Value) -> Result<Value, Error> {
        match &self.link {
            Link::Program(program) => program.request(method, params).await,
            Link::Address(address) => address.request(method, params).await,
        }
    }

    async fn notify(&self, method: &str, params: &Value) -> Result<(), Error> {
        match &self.link {
            Link::Program(program) => program.notify(method, params).await,
            Link::Address(address) => address.notify(method, params).await,
        }
    }
}
