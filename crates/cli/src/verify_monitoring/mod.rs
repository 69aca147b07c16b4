//! `omoi verify-monitoring`: everybody who watches over sandboxes sees real ones, speaks to them, and sees what comes of it.
//! A scripted model plays the agents, so that it needs no key and always does the same.

mod scene;

use anyhow::Result;

use self::scene::Scene;
use crate::{
    Context,
    connect::Connect,
    demo::house::House,
    failure::{Code, FAILED, INTERRUPTED},
    settings::Settings,
    verify_flow::log::{Ids, Log, Report},
};

/// In the order in which they are looked at.
const STEPS: &[&str] = &[
    "server",
    "project",
    "running",
    "monitor",
    "guardian",
    "conductor",
    "trajectory",
    "output",
    "intervention",
    "effect",
    "collaboration",
    "results",
    "metrics",
    "diagnosis",
    "retry",
];

const EXAMPLES: &str = "\
Examples:
  omoi verify-monitoring                against the server that runs
  omoi verify-monitoring --exit --json  a server of its own in a directory that is removed again, for CI

What is looked at, with two sandboxes that work and an agent elsewhere: the monitor, the Guardian and the Conductor see them;
what an agent is about and what it put out is found by the sandbox's id; an agent that goes in circles is told so while it
works, and does something else; what one agent says reaches another; both complete; the figures count them; a ticket whose
task failed is diagnosed, and the task tried again. Each step is told with its time. Ends with 0 only if all of them held.";

/// Check that everybody who watches over sandboxes sees them, and is heard
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Use a server and a data directory of its own, which are gone in the end
    #[arg(long, conflicts_with_all = ["data_dir", "database_url"])]
    exit: bool,
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
        let verified = Box::pin(verify(cx, &house)).await;
        house.leave(cx).await?;
        let report = verified?;
        cx.out.answer(&report, |_| report.text())?;
        if report.held() { Ok(()) } else { Err(Code(FAILED).into()) }
    }
}

/// Nothing goes on that nobody looks at.
async fn verify(cx: &Context, house: &House) -> Result<Report> {
    let mut scene = Scene::new(&house.client);
    let mut log = Log::new(cx);
    let interrupted = tokio::select! {
        _ = walk(&mut log, &mut scene, house) => false,
        _ = cx.signals.next() => true,
    };
    cx.signals.unless_again(scene.leave()).await?;
    let ids = Ids { project_id: scene.project_id.clone(), ..Ids::default() };
    if interrupted { Err(Code(INTERRUPTED).into()) } else { Ok(log.report(ids, STEPS)) }
}

/// Step by step, up to one that the rest cannot do without.
async fn walk(log: &mut Log<'_>, scene: &mut Scene<'_>, house: &House) -> Option<()> {
    log.step("server", scene.server()).await?;
    log.step("project", scene.project(&house.config.data_dir)).await?;
    log.step("running", scene.running()).await?;
    log.step("monitor", scene.monitor()).await;
    log.step("guardian", scene.guardian()).await;
    log.step("conductor", scene.conductor()).await;
    log.step("trajectory", scene.trajectory()).await;
    log.step("output", scene.output()).await;
    if log.step("intervention", scene.intervention()).await.is_some() {
        log.step("effect", scene.effect()).await;
    }
    log.step("collaboration", scene.collaboration()).await;
    log.step("results", scene.results()).await;
    log.step("metrics", scene.metrics()).await;
    log.step("diagnosis", scene.diagnosis()).await?;
    log.step("retry", scene.retry()).await
}
