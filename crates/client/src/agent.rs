//! Attached agents: those that somebody runs elsewhere.

use omoi_protocol::{
    AgentId,
    agent::{Agent, Claim, Heartbeat, HeartbeatAck, NewAgent},
    page::Page,
};

use crate::{Client, Error};

fn path(id: &AgentId, rest: &str) -> String {
    format!("/api/v1/agents/{id}{rest}")
}

impl Client {
    pub async fn agent_list(&self, limit: usize, cursor: Option<&str>) -> Result<Page<Agent>, Error> {
        self.get("/api/v1/agents").query(&(("limit", limit), ("cursor", cursor))).json().await
    }

    pub async fn agent_create(&self, new: &NewAgent) -> Result<Agent, Error> {
        self.post("/api/v1/agents").body(new).json().await
    }

    pub async fn agent_get(&self, id: &AgentId) -> Result<Agent, Error> {
        self.get(&path(id, "")).json().await
    }

    pub async fn agent_heartbeat(&self, id: &AgentId, beat: &Heartbeat) -> Result<HeartbeatAck, Error> {
        self.post(&path(id, "/heartbeat")).body(beat).repeatable().json().await
    }

    /// The best task that the agent can do, or `None` when there is nothing to do.
    pub async fn agent_claim(&self, id: &AgentId) -> Result<Option<Claim>, Error> {
        self.post(&path(id, "/claim")).json_if_any().await
    }
}
