//! How well sandboxes do, or one of them.

use anyhow::Result;
use omoi_client::{Client, FindingQuery, InterventionQuery};
use omoi_protocol::{
    SandboxId,
    guardian::{
        GuardianFinding, GuardianIntervention, GuardianJudgement, GuardianStatus, JudgeStatus, SandboxSummary,
    },
};
use omoi_server::clock::Clock;
use serde::Serialize;

use crate::{
    Context,
    out::Style,
    table::{Item, Table, fields, maybe},
    text::{relative, short},
};

const LIMIT: usize = 50;
const JUDGEMENTS: usize = 10;
const TEXT_CHARS_MAX: usize = 70;

/// Show how well sandboxes do, or what was found and done in one
#[derive(Debug, clap::Args)]
pub struct Show {
    /// A sandbox, or an attached agent; all that live without it
    sandbox: Option<SandboxId>,
}

#[derive(Serialize)]
struct All {
    status: GuardianStatus,
    findings: Vec<GuardianFinding>,
    interventions: Vec<GuardianIntervention>,
}

#[derive(Serialize)]
struct One {
    summary: SandboxSummary,
    findings: Vec<GuardianFinding>,
    interventions: Vec<GuardianIntervention>,
    judgements: Vec<GuardianJudgement>,
}

impl Show {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let limit = Some(LIMIT);
        let Some(id) = self.sandbox else {
            let open = FindingQuery { open: Some(true), limit, ..FindingQuery::default() };
            let made = InterventionQuery { limit, ..InterventionQuery::default() };
            let all = All {
                status: client.guardian_status().await?,
                findings: client.finding_list(&open).await?.items,
                interventions: client.intervention_list(&made).await?.items,
            };
            return cx.out.answer(&all, |style| {
                [
                    status(&all.status),
                    findings(style, &all.findings),
                    interventions(style, &all.interventions),
                ]
                .join("\n")
            });
        };
        let summary = client.sandbox_summary(&id).await?;
        let of = Some(summary.sandbox_id.clone());
        let found = FindingQuery { sandbox_id: of.clone(), limit, ..FindingQuery::default() };
        let made = InterventionQuery { sandbox_id: of, limit, ..InterventionQuery::default() };
        let judged = client.sandbox_judgements(&summary.sandbox_id, JUDGEMENTS).await?.items;
        let one = One {
            judgements: judged,
            summary,
            findings: client.finding_list(&found).await?.items,
            interventions: client.intervention_list(&made).await?.items,
        };
        cx.out.answer(&one, |style| {
            [
                summed(&one.summary),
                findings(style, &one.findings),
                interventions(style, &one.interventions),
                judgements(style, &one.judgements),
            ]
            .join("\n")
        })
    }
}

fn status(status: &GuardianStatus) -> String {
    let now = Clock::Real.now();
    let (health, effects) = (&status.health, &status.effects);
    let looked = status.last_tick_at.map_or_else(|| "never".to_owned(), |at| relative(now, at));
    let running = if status.running { "running" } else { "not running" };
    let well = format!(
        "{}: {} live, {} to be steered, alignment {:.2}",
        health.system, health.sandboxes, health.need_steering, health.average_alignment
    );
    let came = format!(
        "{} made in 24 h: {} changed something, {} did not, {} cannot be told",
        effects.made, effects.changed, effects.unchanged, effects.unknown
    );
    fields([
        ("guardian", Some(format!("{running}, looked {looked} at {} sandboxes", status.sandboxes_watched))),
        ("steering", Some(status.steering.to_string())),
        ("health", Some(well)),
        ("interventions", Some(came)),
        ("judge", status.judge.enabled.then(|| judge(&status.judge))),
        ("waiting for you", (status.waiting > 0).then(|| status.waiting.to_string())),
    ])
}

fn judge(judge: &JudgeStatus) -> String {
    let limit = judge.day_budget_usd.map_or_else(String::new, |limit| format!(" of ${limit:.2}"));
    format!(
        "{}: {} judgements in 24 h, {} failed, ${:.4}{limit} spent",
        judge.model,
        judge.done + judge.failed,
        judge.failed,
        judge.spent_usd
    )
}

fn summed(summary: &SandboxSummary) -> String {
    let progress = summary.seconds_since_progress.map(|seconds| format!("{seconds} s ago"));
    let files: Vec<&str> = summary.files.iter().map(|file| file.path.as_str()).take(10).collect();
    let errors: Vec<String> =
        summary.errors.iter().map(|error| format!("{} (x{})", error.text, error.times)).collect();
    fields([
        ("sandbox", Some(summary.sandbox_id.to_string())),
        ("goal", Some(short(&summary.goal, 300)).filter(|goal| !goal.is_empty())),
        ("phase", Some(format!("{}, {}", summary.phase, summary.focus))),
        ("alignment", Some(format!("{:.2}", summary.alignment))),
        ("last progress", progress),
        ("calls", Some(summary.calls_total.to_string())),
        ("files", Some(files.join(", ")).filter(|files| !files.is_empty())),
        ("errors", Some(errors.join("\n")).filter(|errors| !errors.is_empty())),
        ("cost", Some(format!("${:.4}, {} tokens", summary.cost_usd, summary.tokens))),
        ("question", summary.question.clone()),
    ])
}

fn findings(style: Style, findings: &[GuardianFinding]) -> String {
    let now = Clock::Real.now();
    let header = ["finding", "sandbox", "kind", "severity", "found", "ended", "what"];
    let row = |table: Table, one: &GuardianFinding| {
        table.row([
            one.id.to_string().into(),
            one.sandbox_id.to_string().into(),
            one.kind.as_str().into(),
            Item::Word(one.severity.as_str()),
            relative(now, one.found_at).into(),
            maybe(one.cleared_at.map(|at| relative(now, at))),
            short(&one.text, TEXT_CHARS_MAX).into(),
        ])
    };
    titled(findings.iter().fold(Table::new(style, &header), row).render())
}

fn interventions(style: Style, interventions: &[GuardianIntervention]) -> String {
    let now = Clock::Real.now();
    let header = ["intervention", "sandbox", "does", "state", "made", "effect", "says"];
    let row = |table: Table, one: &GuardianIntervention| {
        table.row([
            one.id.to_string().into(),
            one.sandbox_id.to_string().into(),
            one.action.as_str().into(),
            Item::Word(one.state.as_str()),
            relative(now, one.created_at).into(),
            maybe(one.effect),
            short(&one.text, TEXT_CHARS_MAX).into(),
        ])
    };
    titled(interventions.iter().fold(Table::new(style, &header), row).render())
}

fn judgements(style: Style, judgements: &[GuardianJudgement]) -> String {
    let now = Clock::Real.now();
    let header = ["judgement", "state", "because", "asked", "alignment", "steering", "thinks"];
    let row = |table: Table, one: &GuardianJudgement| {
        let said = one.judgement.as_ref();
        let steering = said.and_then(|said| said.steering_type);
        let thinks =
            said.map(|said| said.steering_recommendation.as_ref().unwrap_or(&said.trajectory_summary));
        table.row([
            one.id.to_string().into(),
            Item::Word(one.state.as_str()),
            one.cause.as_str().into(),
            relative(now, one.asked_at).into(),
            maybe(said.map(|said| format!("{:.2}", said.alignment_score))),
            maybe(steering),
            maybe(thinks.or(one.error.as_ref()).map(|text| short(text, TEXT_CHARS_MAX))),
        ])
    };
    titled(judgements.iter().fold(Table::new(style, &header), row).render())
}

/// A table stands apart from what is above it.
fn titled(table: String) -> String {
    if table.is_empty() { table } else { format!("\n{table}\n") }
}
