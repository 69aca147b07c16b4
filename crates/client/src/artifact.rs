//! Artefacts: files that sandboxes hand in.

use bytes::Bytes;
use omoi_protocol::{ArtifactId, SandboxId, TaskId, artifact::Artifact, page::Page};

use crate::{Client, Error, sandbox::path};

impl Client {
    /// Handing in the same again is harmless.
    pub async fn artifact_create(
        &self,
        from: &SandboxId,
        name: &str,
        content_type: &str,
        content: Bytes,
    ) -> Result<Artifact, Error> {
        let call = self.post(&path(from, "/artifacts")).query(&[("name", name)]);
        call.raw(content_type, content).repeatable().json().await
    }

    /// The first page, oldest first.
    pub async fn artifact_list(&self, of: &SandboxId) -> Result<Page<Artifact>, Error> {
        self.get(&path(of, "/artifacts")).json().await
    }

    /// Of all attempts at a task: the first page, oldest first.
    pub async fn artifact_list_of_task(&self, of: &TaskId) -> Result<Page<Artifact>, Error> {
        self.get(&format!("/api/v1/tasks/{of}/artifacts")).json().await
    }

    pub async fn artifact_get(&self, of: &SandboxId, id: &ArtifactId) -> Result<Bytes, Error> {
        self.get(&path(of, &format!("/artifacts/{id}"))).bytes().await
    }
}
