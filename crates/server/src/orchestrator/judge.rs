//! Puts questions to the judge: those that the Guardian or a person has stored, a few at a time, beside everything else.
//! Whatever comes of one is stored, an answer or the reason why there is none; what follows from it is for the Guardian.

use std::time::{Duration, Instant};

use omoi_protocol::{CallId, CallPurpose, JudgementFailure, JudgementState};
use tokio::{task::JoinSet, time::sleep};

use super::node::Node;
use crate::{
    clock::Clock,
    config,
    domain::supervision::judge::{
        answer,
        prompt::{self, Known},
    },
    gateway::model::{Calls, Own, Tool, Unanswered},
    store::{Error, FindingFilter, JudgementEnded, Question, Store},
};

/// How often new questions are looked for while others are under way.
const LOOK: Duration = Duration::from_secs(1);
/// Beyond the time that the model has, whoever took a question has so long to store what came of it.
const MARGIN: Duration = Duration::from_secs(60);
/// Open findings that the judge is told of.
const FINDINGS_MAX: usize = 20;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub done: usize,
    pub failed: usize,
}

#[derive(Clone)]
pub struct Judge {
    store: Store,
    clock: Clock,
    node: Node,
    calls: Calls,
    settings: config::Judge,
}

impl Judge {
    pub fn new(store: Store, clock: Clock, node: Node, calls: Calls, settings: config::Judge) -> Self {
        Self { store, clock, node, calls, settings }
    }

    /// Until no question is left.
    pub async fn tick(&self) -> Result<Report, Error> {
        let mut report = Report::default();
        if !self.node.is_keeper() {
            return Ok(report);
        }
        let mut under_way = JoinSet::new();
        loop {
            let free = self.settings.at_once.saturating_sub(under_way.len());
            if free > 0 {
                for question in self.store.judgement_take(free, self.settings.timeout + MARGIN).await? {
                    let judge = self.clone();
                    under_way.spawn(async move { judge.put(question).await });
                }
            }
            tokio::select! {
                ended = under_way.join_next() => match ended {
                    None => return Ok(report),
                    Some(Ok(Ok(JudgementState::Done))) => report.done += 1,
                    Some(Ok(Ok(_))) => report.failed += 1,
                    Some(Ok(Err(error))) => return Err(error),
                    // It counts as lost in a while.
                    Some(Err(error)) => tracing::error!(%error, "a question to the judge broke off"),
                },
                () = sleep(LOOK) => {}
            }
        }
    }

    async fn put(&self, question: Question) -> Result<JudgementState, Error> {
        let began = Instant::now();
        let subject = self.store.guardian_subject(question.sandbox_id.as_str()).await?;
        let trajectory = self.store.guardian_trajectory(&subject).await?;
        let open = FindingFilter {
            sandbox_id: Some(subject.id.clone()),
            open: Some(true),
            ..FindingFilter::default()
        };
        let open = self.store.finding_list(open, None, FINDINGS_MAX).await?;
        let open: Vec<Known> = open.into_iter().map(|one| Known { kind: one.kind, text: one.text }).collect();
        let own = Own {
            purpose: CallPurpose::Judge,
            sandbox_id: subject.id,
            model: self.settings.model.clone(),
            system: prompt::SYSTEM,
            text: prompt::question(&trajectory, &open, &question.doubts, self.clock.now()),
            tool: Tool { name: prompt::TOOL, about: prompt::TOOL_ABOUT, schema: prompt::schema() },
            output_max: prompt::OUTPUT_MAX,
            within: self.settings.timeout,
        };
        let call_id = CallId::generate();
        let answer = match self.calls.ask(call_id.clone(), own).await {
            Ok(answer) => {
                answer::read(&answer).map_err(|wrong| (JudgementFailure::Malformed, wrong.to_string()))
            }
            Err(unanswered) => Err((failure(&unanswered), unanswered.to_string())),
        };
        let state = if answer.is_ok() { JudgementState::Done } else { JudgementState::Failed };
        count(answer.as_ref().err().map(|(failure, _)| *failure), began.elapsed());
        let (id, model, seq) = (question.id, self.settings.model.clone(), trajectory.seq);
        self.store.judgement_end(JudgementEnded { id, model, seq, call_id: Some(call_id), answer }).await?;
        Ok(state)
    }
}

fn failure(of: &Unanswered) -> JudgementFailure {
    match of {
        Unanswered::Budget(_) => JudgementFailure::Budget,
        Unanswered::Unavailable(_) => JudgementFailure::Unavailable,
        Unanswered::TimedOut(_) => JudgementFailure::TimedOut,
        Unanswered::Declined => JudgementFailure::Declined,
        Unanswered::Malformed(_) => JudgementFailure::Malformed,
    }
}

fn count(failure: Option<JudgementFailure>, took: Duration) {
    let outcome = failure.map_or("done", JudgementFailure::as_str);
    metrics::counter!("omoi_judgements_total", "outcome" => outcome).increment(1);
    metrics::histogram!("omoi_judgement_seconds").record(took.as_secs_f64());
}
