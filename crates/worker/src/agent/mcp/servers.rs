//! All servers of tools that a launch names. One that does not work is left out: an agent can do without a tool.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use omoi_protocol::launch::McpServer;
use serde_json::Value;
use tokio::{task::JoinSet, time::timeout};

use super::{
    content,
    error::Error,
    offer,
    session::{Session, Tool},
};
use crate::agent::talk::ToolSpec;

/// How long a server may take until its tools are known.
const START: Duration = Duration::from_secs(20);
/// Of all servers together; more would leave a model no room.
const TOOLS_MAX: usize = 256;

/// Its programs end when it is dropped.
#[derive(Default)]
pub struct Mcp {
    sessions: BTreeMap<String, Session>,
    specs: Vec<ToolSpec>,
    /// By the name of the spec: which server has it, and what it calls it.
    places: BTreeMap<String, (String, String)>,
}

impl Mcp {
    /// Starts all at once. `tell` hears of each that is left out, and why.
    pub async fn start(
        servers: &BTreeMap<String, McpServer>,
        env: &BTreeMap<String, String>,
        cwd: &Path,
        tell: &mut (dyn FnMut(String) + Send),
    ) -> Self {
        Self::start_within(START, servers, env, cwd, tell).await
    }

    pub(super) async fn start_within(
        limit: Duration,
        servers: &BTreeMap<String, McpServer>,
        env: &BTreeMap<String, String>,
        cwd: &Path,
        tell: &mut (dyn FnMut(String) + Send),
    ) -> Self {
        let (env, cwd): (Arc<_>, Arc<Path>) = (Arc::new(env.clone()), Arc::from(cwd));
        let mut starts = JoinSet::new();
        for (name, server) in servers {
            let (name, server, env, cwd) = (name.clone(), server.clone(), env.clone(), cwd.clone());
            starts.spawn(async move {
                let opened = timeout(limit, Session::open(&server, &env, &cwd)).await;
                (name, opened.unwrap_or(Err(Error::Silent(limit))))
            });
        }
        let mut opened = BTreeMap::new();
        while let Some(start) = starts.join_next().await {
            match start {
                Ok((name, Ok(session))) => drop(opened.insert(name, session)),
                Ok((name, Err(error))) => tell(format!("MCP server {name} is left out: {error}")),
                Err(error) => tell(format!("an MCP server is left out: {error}")),
            }
        }
        let mut mcp = Self::default();
        let mut taken = BTreeSet::new();
        // By their names, so that tools come in the same order each time.
        for (name, (session, tools)) in opened {
            mcp.offer(&name, tools, &mut taken, tell);
            mcp.sessions.insert(name, session);
        }
        mcp
    }

    /// Their names are `mcp__SERVER__TOOL`.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.specs.clone()
    }

    /// What the tool says and whether it failed, or why it could not be asked.
    pub async fn call(&self, name: &str, input: &Value, limit: Duration) -> Result<(String, bool), String> {
        let Some((server, tool)) = self.places.get(name) else {
            return Err(format!("there is no tool {name} of an MCP server"));
        };
        let session = self.sessions.get(server).ok_or_else(|| format!("there is no MCP server {server}"))?;
        let result = session.call(tool, input, limit).await;
        let result =
            result.map_err(|error| format!("MCP server {server} gave no result of {tool}: {error}"))?;
        content::text(result).ok_or_else(|| format!("what MCP server {server} says to {tool} is no result"))
    }

    fn offer(
        &mut self,
        server: &str,
        tools: Vec<Tool>,
        taken: &mut BTreeSet<String>,
        tell: &mut (dyn FnMut(String) + Send),
    ) {
        for tool in tools {
            if self.specs.len() == TOOLS_MAX {
                return tell(format!(
                    "MCP servers offer more than {TOOLS_MAX} tools; further ones of {server} are left out"
                ));
            }
            match offer::spec(server, &tool, taken) {
                Ok(spec) => {
                    self.places.insert(spec.name.clone(), (server.to_owned(), tool.name));
                    self.specs.push(spec);
                }
                Err(error) => tell(error.to_string()),
            }
        }
    }
}
