//! `omoi task import`: a file of tasks that depend on each other.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, bail};
use omoi_client::Client;
use omoi_protocol::{
    TicketId,
    batch::{NewTaskBatch, TaskBatch},
};
use serde_json::{Value, json};

use crate::{
    Context,
    out::Style,
    project::find_id,
    table::{Item, Table},
};

/// What the server takes in one request by default.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

#[derive(Debug, clap::Args)]
pub struct Import {
    /// A file of tasks, in YAML or JSON
    file: PathBuf,
    /// The project they belong to, by id or name, unless the file or a ticket says
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// The ticket they are part of
    #[arg(long, value_name = "ID")]
    ticket: Option<TicketId>,
    /// Names the batch: imported again under the same key, it makes nothing and shows the same tasks
    #[arg(long, value_name = "KEY")]
    batch_key: Option<String>,
}

impl Import {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let file = self.file.display().to_string();
        let size = fs::metadata(&self.file).with_context(|| format!("cannot read {file}"))?.len();
        if size > FILE_BYTES_MAX {
            bail!("{file} has {size} bytes; {FILE_BYTES_MAX} are taken at once, so import it in parts");
        }
        let text = fs::read_to_string(&self.file).with_context(|| format!("cannot read {file}"))?;
        let mut batch = parse(&text).with_context(|| format!("{file} is no list of tasks"))?;
        batch.project_id = find_id(client, self.project.as_deref()).await?.or(batch.project_id);
        batch.ticket_id = self.ticket.or(batch.ticket_id);
        batch.batch_key = self.batch_key.or(batch.batch_key);
        let made = client.task_create_batch(&batch).await?;
        cx.out.answer(&made, |style| show(style, &batch, &made))
    }
}

/// YAML, of which JSON is a part: a batch, or its tasks alone.
fn parse(text: &str) -> Result<NewTaskBatch> {
    let tree: Value = serde_saphyr::from_str(text)?;
    let batch = match tree {
        tasks @ Value::Array(_) => json!({ "tasks": tasks }),
        batch => batch,
    };
    Ok(serde_json::from_value(batch)?)
}

/// In the order of the file.
fn show(style: Style, batch: &NewTaskBatch, made: &TaskBatch) -> String {
    let header = ["key", "id", "status", "waits for", "title"];
    let tasks = batch.tasks.iter().filter_map(|asked| Some((asked, made.tasks.get(&asked.key)?)));
    let row = |table: Table,
               (asked, task): (&omoi_protocol::batch::BatchTask, &omoi_protocol::task::Task)| {
        table.row([
            asked.key.as_str().into(),
            task.id.to_string().into(),
            Item::Word(task.status.as_str()),
            asked.depends_on.join(" ").into(),
            task.title.as_str().into(),
        ])
    };
    tasks.fold(Table::new(style, &header), row).render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_and_a_batch_are_read_in_yaml_and_in_json() {
        for text in [
            "- {key: a, title: first}\n- {key: b, title: second, depends_on: [a]}\n",
            "tasks:\n  - key: a\n    title: first\n  - key: b\n    title: second\n    depends_on: [a]\n",
            r#"{"tasks": [{"key": "a", "title": "first"}, {"key": "b", "title": "second", "depends_on": ["a"]}]}"#,
        ] {
            let batch = parse(text).unwrap();
            assert_eq!(
                (batch.tasks.len(), &batch.tasks[1].depends_on[..]),
                (2, &["a".to_owned()][..]),
                "{text}"
            );
        }
    }

    #[test]
    fn a_misspelt_field_is_named() {
        let error = parse("- {key: a, title: first, depend_on: [b]}").unwrap_err();
        assert!(error.to_string().contains("depend_on"), "{error}");
    }
}
