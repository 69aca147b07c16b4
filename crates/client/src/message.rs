//! Messages: saying something to a worker, and taking what was said.

use std::time::Duration;

use omoi_protocol::{
    MessageId, MessageState, SandboxId,
    collaboration::{NewTelling, Peer},
    message::{Message, MessageQueued, MessageReport, NewMessage},
};

use crate::{Client, Error, sandbox::path};

impl Client {
    pub async fn message_send(&self, to: &SandboxId, new: &NewMessage) -> Result<MessageQueued, Error> {
        self.post(&path(to, "/messages")).body(new).json().await
    }

    /// What waits for the worker, which counts as delivered from then on. Waits up to `wait` for something to come;
    /// an answer that got lost on the way is handed out again later.
    pub async fn message_take(&self, of: &SandboxId, wait: Duration) -> Result<Vec<Message>, Error> {
        self.get(&path(of, "/messages")).query(&[("wait", wait.as_secs())]).longer_by(wait).json().await
    }

    /// All messages with their states, newest first. Takes nothing.
    pub async fn message_history(&self, of: &SandboxId, limit: usize) -> Result<Vec<Message>, Error> {
        let query = [("history", "true".to_owned()), ("limit", limit.to_string())];
        self.get(&path(of, "/messages")).query(&query).json().await
    }

    /// Says something to another agent of the same project.
    pub async fn peer_tell(&self, from: &SandboxId, new: &NewTelling) -> Result<MessageQueued, Error> {
        self.post(&path(from, "/peers")).body(new).json().await
    }

    pub async fn peer_list(&self, of: &SandboxId) -> Result<Vec<Peer>, Error> {
        self.get(&path(of, "/peers")).json().await
    }

    /// Tells that the agent has the message, or has dealt with it.
    pub async fn message_report(
        &self,
        of: &SandboxId,
        id: &MessageId,
        state: MessageState,
    ) -> Result<Message, Error> {
        let call = self.post(&path(of, &format!("/messages/{id}/ack"))).body(&MessageReport { state });
        call.repeatable().json().await
    }
}
