//! What a run has used up, and whether that is too much.

use omoi_protocol::{launch::Limits, outcome::Tokens};

/// Counted from the beginning of the sandbox, but for the turns and the errors.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    pub tokens: Tokens,
    pub cost_usd: f64,
    /// What had been spent when the query began.
    pub cost_before_usd: f64,
    /// Answers to the query that is under way.
    pub turns: u32,
    pub errors_in_a_row: u32,
}

impl Spent {
    pub fn begin_query(&mut self) {
        self.turns = 0;
        self.errors_in_a_row = 0;
        self.cost_before_usd = self.cost_usd;
    }

    pub fn answered(&mut self, tokens: &Tokens) {
        self.turns += 1;
        self.tokens += *tokens;
    }

    /// Whether an answer came to something.
    pub fn came_to(&mut self, something: bool) {
        self.errors_in_a_row = if something { 0 } else { self.errors_in_a_row + 1 };
    }

    /// Why it goes no further, and what to do.
    pub fn beyond(&self, limits: &Limits) -> Option<String> {
        let cost = self.cost_usd - self.cost_before_usd;
        if self.turns >= limits.max_turns {
            return Some(format!(
                "the agent has had its {} turns; raise max_turns, or make the task smaller",
                limits.max_turns
            ));
        }
        if cost >= limits.max_budget_usd {
            return Some(format!(
                "the agent has spent ${cost:.2} of its ${:.2}; raise max_budget_usd",
                limits.max_budget_usd
            ));
        }
        if self.tokens.output_tokens >= limits.max_output_tokens {
            return Some(format!(
                "the model has written {} tokens; raise max_output_tokens",
                self.tokens.output_tokens
            ));
        }
        if self.errors_in_a_row >= limits.max_consecutive_errors {
            let errors = self.errors_in_a_row;
            return Some(format!(
                "{errors} answers in a row came to nothing; the events before this one tell why"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_stops_by_itself_and_says_which_it_is() {
        let limits = Limits {
            max_turns: 3,
            max_budget_usd: 1.0,
            max_output_tokens: 100,
            max_consecutive_errors: 2,
            ..Limits::DEFAULT
        };
        let output = |output_tokens| Tokens { output_tokens, ..Tokens::default() };
        let table = [
            (Spent::default(), None),
            (Spent { turns: 2, ..Spent::default() }, None),
            (Spent { turns: 3, ..Spent::default() }, Some("max_turns")),
            (Spent { cost_usd: 0.99, ..Spent::default() }, None),
            (Spent { cost_usd: 1.0, ..Spent::default() }, Some("max_budget_usd")),
            (Spent { cost_usd: 9.0, cost_before_usd: 8.5, ..Spent::default() }, None),
            (Spent { tokens: output(100), ..Spent::default() }, Some("max_output_tokens")),
            (Spent { errors_in_a_row: 2, ..Spent::default() }, Some("in a row")),
        ];
        for (spent, named) in table {
            let why = spent.beyond(&limits);
            assert_eq!(why.is_some(), named.is_some(), "{spent:?}: {why:?}");
            assert!(why.unwrap_or_default().contains(named.unwrap_or_default()), "{spent:?}");
        }
    }

    #[test]
    fn a_new_query_has_turns_and_money_anew() {
        let mut spent = Spent { turns: 9, cost_usd: 5.0, errors_in_a_row: 3, ..Spent::default() };
        spent.begin_query();
        assert_eq!(spent.beyond(&Limits { max_turns: 1, ..Limits::DEFAULT }), None);
    }
}
