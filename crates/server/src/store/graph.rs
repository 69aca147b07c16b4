//! The graph of a project's tasks, as far as pages can draw it.

use omoi_protocol::{
    ProjectId, TaskId, TicketId,
    graph::{GraphEdge, GraphNode, TaskGraph},
};
use serde_json::{Map, Value as Json};

use super::{
    Ask, Error, Store, Tx, task,
    value::{Row, params},
};
use crate::domain::graph;

const TASKS_MAX: usize = 2_000;
const EDGES_MAX: usize = 20_000;

impl Store {
    /// The newest tasks of a project, or of one of its tickets, and what they wait for.
    pub async fn graph_get(
        &self,
        project: &ProjectId,
        ticket: Option<&TicketId>,
    ) -> Result<TaskGraph, Error> {
        let (project_id, ticket_id) = (project.clone(), ticket.cloned());
        let (nodes, edges) = {
            let (project, ticket) = (project_id.clone(), ticket_id.clone());
            self.read(async move |tx| {
                task::project_of(tx, ticket.as_ref(), Some(&project)).await?;
                let nodes = nodes(tx, &project, ticket.as_ref()).await?;
                let edges = edges(tx, &nodes).await?;
                Ok((nodes, edges))
            })
            .await?
        };
        Ok(drawn(project_id, ticket_id, nodes, edges))
    }
}

/// One more of each than is shown.
async fn nodes(tx: &mut Tx, project: &ProjectId, ticket: Option<&TicketId>) -> Result<Vec<GraphNode>, Error> {
    let mut ask =
        Ask::new("SELECT id, title, status, priority, execution_config, started_at, completed_at FROM tasks");
    ask.and_some("project_id =", Some(project));
    ask.and_some("ticket_id =", ticket);
    let (sql, values) = ask.order_limit("id DESC", TASKS_MAX + 1);
    tx.query(&sql, values).await?.iter().map(node).collect()
}

fn node(row: &Row) -> Result<GraphNode, Error> {
    let status: omoi_protocol::TaskStatus = row.parse("status")?;
    let config: Map<String, Json> = row.json("execution_config")?;
    let (started, ended): (Option<jiff::Timestamp>, Option<jiff::Timestamp>) =
        (row.get("started_at")?, row.get("completed_at")?);
    let took = started.zip(ended).map(|(from, to)| to.duration_since(from).as_secs().max(0));
    Ok(GraphNode {
        id: row.parse("id")?,
        title: row.get("title")?,
        status,
        priority: row.parse("priority")?,
        estimated_seconds: graph::estimated_seconds(&config),
        duration_seconds: took.filter(|_| status == omoi_protocol::TaskStatus::Completed),
    })
}

async fn edges(tx: &mut Tx, nodes: &[GraphNode]) -> Result<Vec<(TaskId, TaskId)>, Error> {
    let ids: Vec<String> = nodes.iter().take(TASKS_MAX).map(|node| node.id.to_string()).collect();
    let sql = "SELECT task_id, depends_on FROM dependencies WHERE task_id = ANY($1) \
               ORDER BY task_id DESC, depends_on LIMIT $2";
    let rows = tx.query(sql, params![ids, EDGES_MAX + 1]).await?;
    rows.iter().map(|row| Ok((row.parse("task_id")?, row.parse("depends_on")?))).collect()
}

fn drawn(
    project_id: ProjectId,
    ticket_id: Option<TicketId>,
    mut nodes: Vec<GraphNode>,
    mut edges: Vec<(TaskId, TaskId)>,
) -> TaskGraph {
    let truncated = nodes.len() > TASKS_MAX || edges.len() > EDGES_MAX;
    nodes.truncate(TASKS_MAX);
    edges.truncate(EDGES_MAX);
    nodes.reverse();
    let ids: Vec<TaskId> = nodes.iter().map(|node| node.id.clone()).collect();
    edges.retain(|(_, on)| ids.binary_search(on).is_ok());
    edges.sort();
    let weighed: Vec<(TaskId, u64)> = nodes.iter().map(|node| (node.id.clone(), weight(node))).collect();
    let (critical_path, weight) = graph::critical_path(&weighed, &edges);
    TaskGraph {
        project_id,
        ticket_id,
        critical_path,
        critical_path_seconds: i64::try_from(weight).unwrap_or(i64::MAX),
        groups: graph::groups(&ids, &edges),
        nodes,
        edges: edges.into_iter().map(|(task_id, depends_on)| GraphEdge { task_id, depends_on }).collect(),
        truncated,
    }
}

/// Every task takes some time, so that a longer chain counts for more where nothing else is known.
fn weight(node: &GraphNode) -> u64 {
    let seconds = node.duration_seconds.or(node.estimated_seconds).unwrap_or(1);
    u64::try_from(seconds).unwrap_or(1).max(1)
}
