//! Results: what sandboxes hand in for their tasks.

use omoi_protocol::{
    TaskId,
    page::Page,
    result::{NewResult, TaskResult},
};

use crate::{Client, Error};

impl Client {
    pub async fn result_create(&self, new: &NewResult) -> Result<TaskResult, Error> {
        self.post("/api/v1/results").body(new).json().await
    }

    pub async fn result_list(&self, of: &TaskId) -> Result<Page<TaskResult>, Error> {
        self.get("/api/v1/results").query(&[("task_id", of)]).json().await
    }
}
