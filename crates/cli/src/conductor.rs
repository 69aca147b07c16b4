//! `omoi conductor`: who gets in whose way, who does the same work, and how well it all fits.

use anyhow::Result;
use omoi_protocol::{
    conductor::{Clash, ConductorStatus, Conflict, Duplicate, Side},
    page::Page,
};
use omoi_server::clock::Clock;
use serde::Serialize;

use crate::{
    Context,
    connect::Connect,
    out::Style,
    project::find_id,
    table::{Item, Table, fields},
    text::relative,
};

/// Show what gets in each other's way
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Show how well all that is under way fits together, with open conflicts and tasks that seem to be the same
    Show {
        /// Only conflicts and duplicates of this project, by id or name
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
    },
}

#[derive(Serialize)]
struct Shown {
    status: ConductorStatus,
    conflicts: Page<Conflict>,
    duplicates: Page<Duplicate>,
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let client = self.connect.client()?;
        let Verb::Show { project } = self.verb;
        let project = find_id(&client, project.as_deref()).await?;
        let shown = Shown {
            status: client.conductor_status().await?,
            conflicts: client.conflict_list_open(project.as_ref()).await?,
            duplicates: client.duplicate_list_open(project.as_ref()).await?,
        };
        cx.out.answer(&shown, |style| page(&shown, style))
    }
}

fn page(shown: &Shown, style: Style) -> String {
    let last = shown.status.last_analysis.as_ref();
    let mut text = fields([
        ("looked", last.map(|last| relative(Clock::Real.now(), last.at))),
        ("coherence", last.map(|last| format!("{:.2} ({})", last.coherence_score, last.system_status))),
        ("agents", last.map(|last| last.num_agents.to_string())),
        ("conflicts", Some(shown.status.open_conflicts.to_string())),
        ("duplicates", Some(shown.status.open_duplicates.to_string())),
        ("agents are", Some(if shown.status.on_conflict == "tell" { "told" } else { "not told" }.to_owned())),
    ]);
    let table = Table::new(style, &["conflict", "kind", "since", "one", "other", "where"]);
    let conflicts = shown.conflicts.items.iter().fold(table, conflict).render();
    if !conflicts.is_empty() {
        text.push_str(&format!("\n{conflicts}\n"));
    }
    let table = Table::new(style, &["duplicate", "alike", "one", "other"]);
    let duplicates = shown.duplicates.items.iter().fold(table, |table, pair| {
        let alike = Item::Number(format!("{:.2}", pair.similarity));
        table.row([pair.id.to_string().into(), alike, side(&pair.a), side(&pair.b)])
    });
    let duplicates = duplicates.render();
    if !duplicates.is_empty() {
        text.push_str(&format!("\n{duplicates}\n"));
    }
    text
}

fn conflict(table: Table, conflict: &Conflict) -> Table {
    table.row([
        conflict.id.to_string().into(),
        Item::Word(conflict.kind.as_str()),
        relative(Clock::Real.now(), conflict.since).into(),
        side(&conflict.a),
        side(&conflict.b),
        conflict.files.iter().map(place).collect::<Vec<_>>().join("; ").into(),
    ])
}

fn side(side: &Side) -> Item {
    side.title.as_str().into()
}

fn place(clash: &Clash) -> String {
    let ranges: Vec<String> = clash
        .lines
        .iter()
        .map(|range| match range.last {
            Some(last) if last == range.first => last.to_string(),
            Some(last) => format!("{}-{last}", range.first),
            None => format!("{}-", range.first),
        })
        .collect();
    if ranges.is_empty() { clash.path.clone() } else { format!("{}:{}", clash.path, ranges.join(",")) }
}

#[cfg(test)]
mod tests {
    use omoi_protocol::conductor::LineRange;

    use super::*;

    #[test]
    fn a_place_is_a_file_with_its_lines() {
        let range = |first, last| LineRange { first, last };
        let clash = |lines| Clash { path: "a.rs".to_owned(), lines };
        assert_eq!(place(&clash(vec![])), "a.rs");
        assert_eq!(
            place(&clash(vec![range(3, Some(3)), range(5, Some(9)), range(20, None)])),
            "a.rs:3,5-9,20-"
        );
    }
}
