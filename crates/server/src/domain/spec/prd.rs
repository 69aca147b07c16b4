//! What is wanted, for whom and why.

use std::collections::BTreeSet;

use omoi_protocol::spec::output::Prd;

use super::{
    evaluate::{Marks, says, share},
    name, requirement,
};

pub fn judge(output: &Prd, marks: &mut Marks) {
    let overview = &output.overview;
    let told = [&overview.one_liner, &overview.problem_statement, &overview.solution_summary]
        .iter()
        .filter(|text| text.split_whitespace().count() >= 3)
        .count();
    marks.earn(0.15, share(told, 3));
    if told < 3 {
        marks.warn("$.overview", "has parts of fewer than three words; say each in a sentence");
    }
    let goals = says(&output.goals.primary) && !output.goals.success_metrics.is_empty();
    marks.expect(0.15, goals, "$.goals", "needs a primary goal and a success metric");
    marks.expect(0.10, output.users.primary.needs.iter().any(says), "$.users.primary.needs", "is empty");
    stories(output, marks);
    scope(output, marks);
    marks.expect(0.03, output.assumptions.iter().any(says), "$.assumptions", "is empty");
    let constraints = &output.constraints;
    let constrained = constraints.technical.iter().chain(&constraints.business).any(says);
    marks.expect(0.05, constrained, "$.constraints", "is empty");
    let mitigated = output.risks.iter().filter(|risk| says(&risk.mitigation)).count();
    marks.expect(0.05, mitigated > 0, "$.risks", "names no risk with its mitigation");
    marks.earn(0.02, 1.0);
}

fn stories(output: &Prd, marks: &mut Marks) {
    let stories = &output.user_stories;
    if stories.is_empty() {
        return marks
            .issue("$.user_stories", "is empty; there is nothing to require or to build without a story");
    }
    let before = marks.issues();
    let mut ids = BTreeSet::new();
    for (at, story) in stories.iter().enumerate() {
        let at = format!("$.user_stories[{at}]");
        if !name::is_numbered(&story.id, "US") {
            marks.issue(format!("{at}.id"), format!("{:?} is no id such as US-001", story.id));
        } else if !ids.insert(story.id.as_str()) {
            marks.issue(format!("{at}.id"), format!("{} is given to more than one story", story.id));
        }
    }
    marks.earn(0.05, if marks.issues() == before { 1.0 } else { 0.0 });
    let told = stories.iter().filter(|story| story.want.split_whitespace().count() >= 2).count();
    marks.earn(0.20, share(told, stories.len()));
    if told < stories.len() {
        marks.warn("$.user_stories", "some stories want a single word; say what somebody wants to do");
    }
    let mut good = 0;
    for (at, story) in stories.iter().enumerate() {
        let at = format!("$.user_stories[{at}].acceptance_criteria");
        good += usize::from(requirement::criteria(&story.acceptance_criteria, 1, &at, marks));
    }
    marks.earn(0.10, share(good, stories.len()));
}

fn scope(output: &Prd, marks: &mut Marks) {
    let scope = &output.scope;
    let told = [!scope.in_scope.is_empty(), !scope.out_of_scope.is_empty()];
    marks.earn(0.10, share(told.iter().filter(|told| **told).count(), 2));
    if !(told[0] && told[1]) {
        marks.warn("$.scope", "must say both what is in scope and what is not");
    }
    let key = |text: &str| text.trim().to_lowercase();
    let inside: BTreeSet<String> = scope.in_scope.iter().map(|text| key(text)).collect();
    for (at, text) in scope.out_of_scope.iter().enumerate() {
        if inside.contains(&key(text)) {
            let at = format!("$.scope.out_of_scope[{at}]");
            marks.issue(at, format!("{text:?} is both in scope and out of it; take one away"));
        }
    }
}
