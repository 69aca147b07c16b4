//! `omoi ticket`: what people want.

use anyhow::Result;
use omoi_client::TicketQuery;
use omoi_protocol::{
    Priority, TicketId, TicketStatus, TicketType,
    ticket::{NewTicket, Ticket},
};
use omoi_server::clock::Clock;

use crate::{
    Context,
    args::word,
    connect::Connect,
    page::{Limit, collect},
    project::{find, find_id},
    table::{Item, Table, fields, number},
    text::{moment, relative},
};

const EXAMPLES: &str = "\
Examples:
  omoi ticket create --project shop --type bug --priority high 'Totals are wrong by a cent'
  omoi ticket list --project shop --status building
  omoi ticket show tkt-...";

/// Create, list and show tickets
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Create a ticket, and with it one task that does all of it
    Create {
        /// What is wanted, in one line
        title: String,
        /// The project it belongs to, by id or name
        #[arg(long, value_name = "PROJECT")]
        project: String,
        /// What is wanted, in full
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        description: String,
        /// What kind of wish it is
        #[arg(long = "type", value_name = "TYPE", value_parser = word!(TicketType), ignore_case = true, default_value = "feature")]
        ticket_type: TicketType,
        /// How soon it is wanted
        #[arg(long, value_parser = word!(Priority), ignore_case = true, default_value = "MEDIUM")]
        priority: Priority,
        /// Leave the task out; others will be added
        #[arg(long)]
        no_task: bool,
    },
    /// List tickets
    List {
        /// Only those of this project, by id or name
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
        /// Only those in this state
        #[arg(long, value_parser = word!(TicketStatus), ignore_case = true)]
        status: Option<TicketStatus>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show one ticket in full
    Show {
        /// As `omoi ticket list` shows it
        id: TicketId,
    },
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let client = self.connect.client()?;
        match self.verb {
            Verb::Create { title, project, description, ticket_type, priority, no_task } => {
                let create_task = !no_task;
                let new = NewTicket {
                    project_id: find(&client, &project).await?.id,
                    title,
                    description,
                    ticket_type,
                    priority,
                    create_task,
                    checks: None,
                };
                let created = client.ticket_create(&new).await?;
                let task = ("task", created.task_id.as_ref().map(ToString::to_string));
                cx.out.answer(&created, |_| fields(pairs(&created.ticket).into_iter().chain([task])))
            }
            Verb::List { project, status, limit } => {
                let project_id = find_id(&client, project.as_deref()).await?;
                let fetch = async |size, cursor| {
                    let query =
                        TicketQuery { project_id: project_id.clone(), status, limit: Some(size), cursor };
                    client.ticket_list(&query).await
                };
                let page = collect(limit.get(), fetch).await?;
                cx.out.answer(&page, |style| {
                    let header = ["id", "number", "status", "type", "priority", "created", "title"];
                    page.items.iter().fold(Table::new(style, &header), row).render()
                })?;
                limit.tell(cx, &page);
                Ok(())
            }
            Verb::Show { id } => {
                let ticket = client.ticket_get(&id).await?;
                cx.out.answer(&ticket, |_| fields(pairs(&ticket)))
            }
        }
    }
}

fn row(table: Table, ticket: &Ticket) -> Table {
    table.row([
        ticket.id.to_string().into(),
        number(&ticket.number),
        Item::Word(ticket.status.as_str()),
        Item::Word(ticket.ticket_type.as_str()),
        Item::Word(ticket.priority.as_str()),
        relative(Clock::Real.now(), ticket.created_at).into(),
        ticket.title.as_str().into(),
    ])
}

fn pairs(ticket: &Ticket) -> Vec<(&'static str, Option<String>)> {
    let now = Clock::Real.now();
    vec![
        ("id", Some(ticket.id.to_string())),
        ("number", Some(ticket.number.to_string())),
        ("title", Some(ticket.title.clone())),
        ("status", Some(ticket.status.to_string())),
        ("type", Some(ticket.ticket_type.to_string())),
        ("priority", Some(ticket.priority.to_string())),
        ("project", Some(ticket.project_id.to_string())),
        ("created", Some(moment(now, ticket.created_at))),
        ("updated", Some(moment(now, ticket.updated_at))),
        ("description", Some(ticket.description.clone()).filter(|text| !text.is_empty())),
    ]
}
