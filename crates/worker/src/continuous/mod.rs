//! Work in iterations: the agent works, what it made is committed and pushed, and when it says that it is done that is
//! looked at. Each iteration begins a new conversation, which knows of the earlier ones what the work tree, the agent's
//! notes and the verdict tell. Limits of one query are kept by the session; here are those of all together.

mod course;
mod notes;
mod validation;

use std::path::Path;

use omoi_protocol::{
    event::{
        ContinuousStarted, ContinuousStop, Decimal, IterationCompleted, IterationCompletionSignal,
        IterationFailed, IterationStarted, IterationState,
    },
    outcome::Failure,
};
use serde_json::json;

use self::{
    course::{Course, Used},
    validation::{Findings, Validation, judge, requirements, signals},
};
use crate::{
    agent::{
        prompt::{self, COMPLETION_SIGNAL, Iteration},
        session::Ended,
        tell::cut,
    },
    drive::{CODE_FAILED, Drive, INTERRUPTED, Saved, Waited, over_budget},
    report::{Done, Looped},
    say::say,
    work::{Stop, Wish},
};

/// How often the agent must say that it is done.
const THRESHOLD: u64 = 1;
const PREVIEW_CHARS_MAX: usize = 500;
const OUTPUT_CHARS_MAX: usize = 1000;
/// Of the agent's last words, in the next iteration.
const WORDS_CHARS_MAX: usize = 2000;

/// A run of several iterations.
struct Run {
    course: Course,
    saved: Option<Saved>,
    /// What the next iteration is told of this one.
    feedback: String,
}

/// How an iteration ended.
enum One {
    Finished,
    Failed(Failure),
    Stopped(Stop),
}

impl Drive<'_, '_> {
    /// Works in iterations until the work has passed, or something is used up.
    pub async fn iterate(&mut self, stop: &mut Wish) -> Done {
        let mut run = Run { course: Course::default(), saved: None, feedback: String::new() };
        self.begin_run().await;
        loop {
            if let Err(failure) = self.begin_iteration(&mut run) {
                let done = self.failed(CODE_FAILED, failure).await;
                return self.end_run(&run, ContinuousStop::ConsecutiveErrors, done);
            }
            let spent = self.session.spent.cost_usd;
            match self.one(stop).await {
                One::Finished => self.finished(&mut run, spent).await,
                One::Failed(failure) => self.broken(&mut run, failure).await,
                One::Stopped(wish) => {
                    let reason = match wish {
                        Stop::Interrupt | Stop::Deadline => ContinuousStop::MaxDurationReached,
                        Stop::Leave | Stop::Closed => ContinuousStop::ShutdownSignal,
                    };
                    let done = self.stopped(wish).await;
                    return self.end_run(&run, reason, done);
                }
            }
            let Some(reason) = run.course.over(&self.used(), &self.work.launch.limits) else { continue };
            if !run.course.passed {
                let limits = &self.work.launch.limits;
                let failure = run.course.failed(&reason, &self.used(), limits, &run.feedback);
                let done = self.done(CODE_FAILED, Err(failure), run.saved.clone());
                return self.end_run(&run, reason, done);
            }
            if !self.is_asked_for_more(&run, stop).await {
                let gates = self.work.launch.gates();
                let is_judged = gates.clean_git || gates.code_pushed;
                let reason = if is_judged { reason } else { ContinuousStop::CompletionSignal };
                let done = self.done(0, Ok(()), run.saved.clone());
                return self.end_run(&run, reason, done);
            }
        }
    }

    async fn begin_run(&self) {
        let launch = self.work.launch;
        if let Some(workspace) = self.workspace
            && let Err(error) = notes::exclude(&workspace.git).await
        {
            say(&format!("the agent's notes will be committed: {error}"));
        }
        let limits = &launch.limits;
        self.work.outbox.push(ContinuousStarted {
            goal: Some(cut(&prompt::task(launch), PREVIEW_CHARS_MAX)),
            limits: Some(json!({
                "max_iterations": limits.max_iterations,
                "max_total_cost_usd": limits.max_total_cost_usd,
                "max_duration_seconds": limits.max_duration_seconds,
                "max_consecutive_errors": course::errors_max(limits),
            })),
            completion_signal: Some(COMPLETION_SIGNAL.to_owned()),
            completion_threshold: Some(THRESHOLD),
            validation_requirements: Some(requirements(launch.gates())),
            ..ContinuousStarted::default()
        });
    }

    fn begin_iteration(&mut self, run: &mut Run) -> Result<(), Failure> {
        run.course.begin();
        if run.course.iteration > 1 {
            let launch = self.work.launch;
            let opening = prompt::iteration(
                launch,
                &Iteration {
                    number: run.course.iteration,
                    told: self.session.told().collect(),
                    notes: notes::read(Path::new(&launch.workspace_path)),
                    feedback: std::mem::take(&mut run.feedback),
                },
            );
            self.session.begin_anew(opening)?;
        }
        self.work.outbox.push(IterationStarted {
            prompt_preview: Some(cut(self.session.opening(), PREVIEW_CHARS_MAX)),
            state: self.state(run),
            ..IterationStarted::default()
        });
        Ok(())
    }

    /// One conversation. Whoever interrupts it, or gives it money, goes on with the same.
    async fn one(&mut self, stop: &mut Wish) -> One {
        loop {
            let said = match self.query(stop).await {
                Ended::Finished => return One::Finished,
                Ended::Failed(failure) => return One::Failed(failure),
                Ended::Stopped(wish) => return One::Stopped(wish),
                Ended::Interrupted => INTERRUPTED.to_owned(),
                Ended::OverBudget(why) => {
                    if self.session.spent.cost_usd >= self.work.launch.limits.max_total_cost_usd {
                        return One::Failed(Failure::new(omoi_protocol::FailureKind::Limit, why));
                    }
                    over_budget(&why)
                }
            };
            if let Waited::Stop(wish) = self.wait(&said, None, stop).await {
                return One::Stopped(wish);
            }
        }
    }

    async fn finished(&mut self, run: &mut Run, spent_before: f64) {
        run.course.complete();
        let words = self.session.last_words.clone();
        let unsaved = self.save_work(run).await;
        self.work.outbox.push(IterationCompleted {
            cost_usd: Decimal::new(self.session.spent.cost_usd - spent_before),
            output_preview: Some(cut(&words, OUTPUT_CHARS_MAX)),
            state: self.state(run),
            ..IterationCompleted::default()
        });
        if signals(&words) {
            run.course.signals += 1;
            self.work.outbox.push(IterationCompletionSignal {
                iteration_num: Some(run.course.iteration.into()),
                signal_count: Some(run.course.signals.into()),
                threshold: Some(THRESHOLD),
                ..IterationCompletionSignal::default()
            });
            let validation = self.validate(run.course.iteration, unsaved).await;
            run.course.passed = validation.passed();
            run.feedback = validation.feedback();
            return;
        }
        let words = cut(words.trim(), WORDS_CHARS_MAX);
        run.feedback = format!("It ended without {COMPLETION_SIGNAL}. Its last words were:\n\n{words}");
        if let Some(why) = unsaved {
            run.feedback.push_str(&format!("\n\nAnd {why}."));
        }
    }

    async fn broken(&mut self, run: &mut Run, failure: Failure) {
        self.work.outbox.push(IterationFailed {
            iteration_num: Some(run.course.iteration.into()),
            error: Some(failure.message.clone()),
            error_type: Some(failure.kind.to_string()),
            error_count: Some(u64::from(run.course.errors_in_a_row) + 1),
            ..IterationFailed::default()
        });
        run.feedback = format!("It failed: {}", failure.message);
        run.course.fail(failure);
        if let Some(why) = self.save_work(run).await {
            run.feedback.push_str(&format!("\n\nAnd {why}."));
        }
    }

    /// Why it could not be saved, if it could not.
    async fn save_work(&mut self, run: &mut Run) -> Option<String> {
        match self.save().await {
            Ok(saved) => {
                run.saved = saved.or(run.saved.take());
                None
            }
            Err(failure) => Some(failure.message),
        }
    }

    async fn validate(&self, iteration: u32, unsaved: Option<String>) -> Validation {
        let launch = self.work.launch;
        let dirty = match self.workspace {
            Some(workspace) => Some(workspace.left_over().await.map_err(|error| error.to_string())),
            None => None,
        };
        let branch_name = launch.repository.as_ref().map(|repository| repository.branch_name.clone());
        let findings = Findings { branch_name, unsaved, dirty };
        let validation = judge(launch.gates(), &findings);
        self.work.outbox.push(validation.event(iteration, &findings));
        validation
    }

    /// Whether somebody says more once the work has passed, and there is something left to do it with.
    async fn is_asked_for_more(&mut self, run: &Run, stop: &mut Wish) -> bool {
        let unpassed = Course { passed: false, ..run.course.clone() };
        if unpassed.over(&self.used(), &self.work.launch.limits).is_some() {
            return false;
        }
        self.session.has_mail() || matches!(self.linger(stop).await, Waited::Mail)
    }

    fn end_run(&self, run: &Run, stop: ContinuousStop, done: Done) -> Done {
        Done { looped: Some(Looped { stop, state: self.state(run) }), ..done }
    }

    fn used(&self) -> Used {
        let spent = &self.session.spent;
        Used {
            cost_usd: spent.cost_usd,
            output_tokens: spent.tokens.output_tokens,
            elapsed: self.session.elapsed(),
        }
    }

    fn state(&self, run: &Run) -> IterationState {
        let (course, saved) = (&run.course, run.saved.as_ref());
        IterationState {
            iteration_num: Some(course.iteration.into()),
            successful_iterations: Some(course.completed.into()),
            error_count: Some(course.errors_in_a_row.into()),
            total_cost_usd: Decimal::new(self.session.spent.cost_usd),
            completion_signal_count: Some(course.signals.into()),
            elapsed_seconds: Decimal::new(self.session.elapsed().as_millis() as f64 / 1000.0),
            last_session_id: Some(self.session.id.clone()),
            validation_passed: Some(course.passed),
            code_committed: saved.map(|saved| saved.committed),
            code_pushed: saved.map(|saved| saved.pushed.is_new),
            files_changed: saved.map(|saved| saved.pushed.files.into()),
            ..IterationState::default()
        }
    }
}
