//! `omoi verify-flow`: one task from its ticket to its branch, and everything on the way looked at. A scripted model plays
//! the agent, so that it needs no key and always does the same.

mod eye;
pub mod log;
mod scene;

use anyhow::Result;
use omoi_protocol::task::Reason;

use self::{
    log::{Log, Report},
    scene::Scene,
};
use crate::{
    Context,
    connect::Connect,
    demo::{end, house::House},
    failure::{Code, FAILED, INTERRUPTED},
    settings::Settings,
};

/// In the order in which they are looked at.
const STEPS: &[&str] = &[
    "server",
    "project",
    "ticket",
    "task",
    "pickup",
    "first event",
    "heartbeat",
    "tool result",
    "message",
    "file edit",
    "diff",
    "completion",
    "branch",
    "transcript",
    "costs",
    "events",
    "kept",
];

const EXAMPLES: &str = "\
Examples:
  omoi verify-flow                      against the server that runs
  omoi verify-flow --project shop       in a project that is there already; its branch gets a file answer.txt
  omoi verify-flow --exit --json        a server of its own in a directory that is removed again, for CI

What is looked at: a project, a ticket and a task are made; a sandbox takes the task; its first event, a heartbeat and the
result of a tool arrive; a message reaches the agent (delivered, injected, acknowledged) and it does what it says; the
edited file, its diff, the completed task, the branch, the transcript and the costs are there; no event is missing; the
work is kept. Each step is told with its time. Ends with 0 only if all of them held, with 1 if one did not.";

/// Check the whole way of a task, from its ticket to its branch
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Use a server and a data directory of its own, which are gone in the end
    #[arg(long, conflicts_with_all = ["data_dir", "database_url", "project"])]
    exit: bool,
    /// A project by id or name; otherwise one of a small repository that is made for it
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    settings: Settings,
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        cx.out.outlast_reader();
        let house = if self.exit {
            House::passing(cx, &self.settings, "omoi-verify-").await?
        } else {
            House { client: self.connect.client()?, config: self.settings.resolve(cx)?.config, own: None }
        };
        let verified = Box::pin(verify(cx, &house, self.project.as_deref())).await;
        house.leave(cx).await?;
        let report = verified?;
        cx.out.answer(&report, |_| report.text())?;
        if report.held() { Ok(()) } else { Err(Code(FAILED).into()) }
    }
}

/// Nothing goes on that nobody looks at.
async fn verify(cx: &Context, house: &House, project: Option<&str>) -> Result<Report> {
    let mut scene = Scene::new(&house.client);
    let mut log = Log::new(cx);
    let interrupted = tokio::select! {
        _ = walk(&mut log, &mut scene, house, project) => false,
        _ = cx.signals.next() => true,
    };
    let leave = async {
        match (&scene.ids.sandbox_id, &scene.ids.task_id) {
            (Some(sandbox), _) => end(&house.client, sandbox, "the flow is verified").await?,
            (None, Some(task)) => {
                let reason = Reason { reason: Some("the flow could not be verified".to_owned()) };
                house.client.task_cancel(task, &reason).await?;
            }
            (None, None) => {}
        }
        Ok(())
    };
    cx.signals.unless_again(leave).await?;
    if interrupted { Err(Code(INTERRUPTED).into()) } else { Ok(log.report(scene.ids, STEPS)) }
}

/// Step by step, up to one that the rest cannot do without.
async fn walk(log: &mut Log<'_>, scene: &mut Scene<'_>, house: &House, project: Option<&str>) -> Option<()> {
    log.step("server", scene.server()).await?;
    log.step("project", scene.project(project, &house.config.data_dir)).await?;
    log.step("ticket", scene.ticket()).await?;
    log.step("task", scene.task()).await?;
    log.step("pickup", scene.pickup()).await?;
    log.step("first event", scene.first_event()).await?;
    log.step("heartbeat", scene.heartbeat()).await;
    log.step("tool result", scene.tool_result()).await;
    log.step("message", scene.message()).await?;
    if log.step("file edit", scene.file_edit()).await.is_some() {
        log.step("diff", scene.diff()).await;
    }
    log.step("completion", scene.completion()).await;
    log.step("branch", scene.branch()).await;
    log.step("transcript", scene.transcript()).await;
    log.step("costs", scene.costs()).await;
    log.step("events", scene.events()).await;
    log.step("kept", scene.kept()).await
}
