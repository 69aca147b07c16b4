//! Where a run of several iterations stands, and whether it goes on. Pure: what was used up and what the limits are is
//! handed in.

use std::time::Duration;

use omoi_protocol::{FailureKind, event::ContinuousStop, launch::Limits, outcome::Failure};

/// Iterations in a row that may fail. The limit on answers that come to nothing counts within one; where it is lower, it
/// counts here as well.
const ERRORS_MAX: u32 = 3;

#[derive(Debug, Clone, Default)]
pub struct Course {
    /// The one under way, from one.
    pub iteration: u32,
    pub completed: u32,
    pub errors_in_a_row: u32,
    pub signals: u32,
    pub passed: bool,
    pub failure: Option<Failure>,
}

/// What all iterations together have used up.
#[derive(Debug, Clone, Copy, Default)]
pub struct Used {
    pub cost_usd: f64,
    pub output_tokens: u64,
    pub elapsed: Duration,
}

impl Course {
    pub fn begin(&mut self) {
        self.iteration += 1;
        self.passed = false;
    }

    pub fn complete(&mut self) {
        self.completed += 1;
        self.errors_in_a_row = 0;
        self.failure = None;
    }

    pub fn fail(&mut self, failure: Failure) {
        self.errors_in_a_row += 1;
        self.failure = Some(failure);
    }

    /// Why there is no further iteration, if there is none. What is used up comes before what it led to.
    pub fn over(&self, used: &Used, limits: &Limits) -> Option<ContinuousStop> {
        let hopeless = self.failure.as_ref().is_some_and(|failure| failure.kind == FailureKind::Invalid);
        if self.passed {
            Some(ContinuousStop::ValidationPassed)
        } else if used.cost_usd >= limits.max_total_cost_usd || used.output_tokens >= limits.max_output_tokens
        {
            Some(ContinuousStop::MaxCostReached)
        } else if used.elapsed.as_secs() >= limits.max_duration_seconds {
            Some(ContinuousStop::MaxDurationReached)
        } else if hopeless || self.errors_in_a_row >= errors_max(limits) {
            Some(ContinuousStop::ConsecutiveErrors)
        } else if self.iteration >= limits.max_iterations {
            Some(ContinuousStop::MaxIterationsReached)
        } else {
            None
        }
    }

    /// What is reported of a run that ended without having passed.
    pub fn failed(&self, stop: &ContinuousStop, used: &Used, limits: &Limits, feedback: &str) -> Failure {
        let limit = |what: String| {
            Failure::new(FailureKind::Limit, format!("{what}. What came of the last iteration: {feedback}"))
        };
        match stop {
            ContinuousStop::MaxIterationsReached => limit(format!(
                "the agent has had its {} iterations and its work has not passed; raise max_iterations, or make the task smaller",
                limits.max_iterations
            )),
            ContinuousStop::MaxDurationReached => limit(format!(
                "the agent has had its {} s and its work has not passed; raise max_duration_seconds",
                limits.max_duration_seconds
            )),
            ContinuousStop::MaxCostReached if used.cost_usd >= limits.max_total_cost_usd => limit(format!(
                "the agent has spent ${:.2} of its ${:.2} and its work has not passed; raise max_total_cost_usd",
                used.cost_usd, limits.max_total_cost_usd
            )),
            ContinuousStop::MaxCostReached => limit(format!(
                "the model has written {} tokens and its work has not passed; raise max_output_tokens",
                used.output_tokens
            )),
            stop => {
                let last = self.failure.clone();
                let last = last.unwrap_or_else(|| Failure::new(FailureKind::Agent, feedback.to_owned()));
                let message = match self.errors_in_a_row {
                    0 | 1 => last.message.clone(),
                    times => format!(
                        "{times} iterations in a row failed ({}); the last: {}",
                        stop.as_str(),
                        last.message
                    ),
                };
                Failure { message, ..last }
            }
        }
    }
}

/// How many iterations in a row may fail.
pub fn errors_max(limits: &Limits) -> u32 {
    limits.max_consecutive_errors.min(ERRORS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        max_iterations: 4,
        max_total_cost_usd: 2.0,
        max_duration_seconds: 60,
        max_output_tokens: 100,
        ..Limits::DEFAULT
    };

    fn course(iteration: u32, errors_in_a_row: u32, kind: Option<FailureKind>) -> Course {
        let failure = kind.map(|kind| Failure::new(kind, "it broke"));
        Course { iteration, errors_in_a_row, failure, ..Course::default() }
    }

    #[test]
    fn a_run_goes_on_until_it_has_passed_or_something_is_used_up() {
        use ContinuousStop::*;
        let used = |cost_usd, output_tokens, seconds| Used {
            cost_usd,
            output_tokens,
            elapsed: Duration::from_secs(seconds),
        };
        let (fresh, agent) = (used(0.0, 0, 0), Some(FailureKind::Agent));
        let passed = Course { passed: true, ..course(4, 0, None) };
        let table = [
            (course(0, 0, None), fresh, None),
            (course(3, 0, None), used(1.99, 99, 59), None),
            (course(4, 0, None), fresh, Some(MaxIterationsReached)),
            (course(1, 0, None), used(2.0, 0, 0), Some(MaxCostReached)),
            (course(1, 0, None), used(0.0, 100, 0), Some(MaxCostReached)),
            (course(1, 0, None), used(0.0, 0, 60), Some(MaxDurationReached)),
            (course(2, 2, agent), fresh, None),
            (course(3, 3, agent), fresh, Some(ConsecutiveErrors)),
            (course(1, 1, Some(FailureKind::Invalid)), fresh, Some(ConsecutiveErrors)),
            (course(1, 1, Some(FailureKind::Limit)), used(0.0, 0, 61), Some(MaxDurationReached)),
            // Work that has passed is not spoiled by a limit that it reached.
            (passed, used(9.0, 900, 900), Some(ValidationPassed)),
        ];
        for (course, used, expected) in table {
            assert_eq!(course.over(&used, &LIMITS), expected, "{course:?} {used:?}");
        }
        let strict = Limits { max_consecutive_errors: 1, ..LIMITS };
        assert_eq!(course(1, 1, agent).over(&fresh, &strict), Some(ConsecutiveErrors));
    }

    #[test]
    fn a_limit_is_a_failure_that_names_it_and_errors_keep_their_kind() {
        use ContinuousStop::*;
        let used = Used { cost_usd: 3.0, ..Used::default() };
        let table = [
            (MaxIterationsReached, used, FailureKind::Limit, "max_iterations"),
            (MaxDurationReached, used, FailureKind::Limit, "max_duration_seconds"),
            (MaxCostReached, used, FailureKind::Limit, "max_total_cost_usd"),
            (MaxCostReached, Used::default(), FailureKind::Limit, "max_output_tokens"),
            (ConsecutiveErrors, used, FailureKind::Unavailable, "3 iterations in a row"),
        ];
        let course = course(3, 3, Some(FailureKind::Unavailable));
        for (stop, used, kind, words) in table {
            let failure = course.failed(&stop, &used, &LIMITS, "no push");
            assert_eq!(failure.kind, kind, "{stop:?}");
            assert!(failure.message.contains(words), "{stop:?}: {}", failure.message);
        }
    }

    #[test]
    fn an_iteration_that_completes_forgives_those_that_failed() {
        let mut course = course(2, 2, Some(FailureKind::Agent));
        course.complete();
        assert_eq!((course.completed, course.errors_in_a_row, course.failure.is_none()), (1, 0, true));
        course.passed = true;
        course.begin();
        assert_eq!((course.iteration, course.passed), (3, false), "more work has to pass again");
    }
}
