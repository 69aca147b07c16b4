//! The last phase says that everything fits together. Each claim is held against what the outputs before it really say, and
//! one that differs fails.

use std::collections::{BTreeMap, BTreeSet};

use omoi_protocol::spec::{
    Phase, Wrong,
    output::{Design, Requirements, Sync, Tasks},
};
use serde_json::Value;

use super::{
    evaluate::{Known, Marks, says},
    fact,
};

pub fn judge(output: &Sync, known: &Known<'_>, marks: &mut Marks) {
    let Some(tasks) = known.output::<Tasks>(Phase::Tasks).filter(|tasks| !tasks.tasks.is_empty()) else {
        return marks.issue("$", "there are no tasks behind it; the tasks phase has to stand first");
    };
    let requirements = known.output(Phase::Requirements).unwrap_or_default();
    let facts = Facts::new(requirements, &known.output(Phase::Design).unwrap_or_default(), tasks);
    earn(0.20, marks, |marks| facts.validation(output, marks));
    earn(0.15, marks, |marks| facts.matrix(output, marks));
    earn(0.15, marks, |marks| facts.stats(output, marks));
    earn(0.10, marks, |marks| facts.dependencies(output, marks));
    earn(0.15, marks, |marks| facts.summary(output, marks));
    facts.ready(output, marks);
    let named = output.blockers.iter().all(says);
    marks.expect(0.05, named, "$.blockers", "has an empty entry");
    marks.expect(0.05, output.recommendations.iter().any(says), "$.recommendations", "is empty");
}

/// The whole weight, if nothing in it was wrong.
fn earn(weight: f64, marks: &mut Marks, judge: impl FnOnce(&mut Marks)) {
    let before = marks.issues();
    judge(marks);
    let right = marks.issues() == before;
    marks.earn(weight, if right { 1.0 } else { 0.0 });
}

/// What the outputs before it really say, worked out once.
struct Facts {
    requirements: Requirements,
    tasks: Tasks,
    uncovered_requirements: Vec<String>,
    uncovered_components: Vec<String>,
    circles: Vec<String>,
    /// Circles among them.
    disorder: Vec<String>,
    bad_ids: Vec<String>,
}

impl Facts {
    fn new(requirements: Requirements, design: &Design, tasks: Tasks) -> Self {
        let uncovered = fact::uncovered_requirements(&requirements, &tasks);
        let uncovered_requirements =
            uncovered.iter().map(|one| format!("no task addresses {}", one.id)).collect();
        let uncovered = fact::uncovered_components(design, &tasks).into_iter();
        let uncovered_components =
            uncovered.map(|component| format!("no task covers component {:?}", component.name)).collect();
        let circles = texts(fact::cycles(&tasks));
        let mut disorder = circles.clone();
        disorder.extend(texts(fact::order(&tasks)));
        let bad_ids = texts(fact::ids(&tasks, Some(&requirements)));
        Self { uncovered_requirements, uncovered_components, circles, disorder, bad_ids, requirements, tasks }
    }

    fn validation(&self, output: &Sync, marks: &mut Marks) {
        let claims = &output.validation_results;
        let claimed = [
            ("all_requirements_covered", claims.all_requirements_covered, &self.uncovered_requirements),
            (
                "all_design_components_have_tasks",
                claims.all_design_components_have_tasks,
                &self.uncovered_components,
            ),
            ("dependency_order_valid", claims.dependency_order_valid, &self.disorder),
            ("no_circular_dependencies", claims.no_circular_dependencies, &self.circles),
            ("all_ids_valid", claims.all_ids_valid, &self.bad_ids),
        ];
        for (key, claim, problems) in claimed {
            let at = format!("$.validation_results.{key}");
            match (claim, problems.first()) {
                (true, Some(problem)) => marks.issue(at, format!("says true, but {problem}")),
                (false, None) => marks.issue(at, "says false, but nothing is found that is wrong"),
                (true, None) | (false, Some(_)) => {}
            }
        }
    }

    /// The first thing that keeps the tasks from being carried out.
    fn problem(&self) -> Option<&String> {
        let problems =
            [&self.uncovered_requirements, &self.uncovered_components, &self.disorder, &self.bad_ids];
        problems.into_iter().flatten().next()
    }

    fn matrix(&self, output: &Sync, marks: &mut Marks) {
        let mut seen = BTreeSet::new();
        let covering = fact::Covering::new(&self.tasks);
        for (at, row) in output.coverage_matrix.iter().enumerate() {
            let (at, id) = (format!("$.coverage_matrix[{at}]"), row.requirement_id.as_str());
            if !self.requirements.requirements.iter().any(|one| one.id == id) {
                marks.issue(format!("{at}.requirement_id"), format!("{id:?} is no requirement of this spec"));
                continue;
            }
            if !seen.insert(id) {
                marks.issue(format!("{at}.requirement_id"), format!("{id} has a row already"));
            }
            let (tasks, tickets) = covering.of(id);
            same(&format!("{at}.covered_by_tasks"), &row.covered_by_tasks, &tasks, id, marks);
            if !row.covered_by_tickets.is_empty() {
                same(&format!("{at}.covered_by_tickets"), &row.covered_by_tickets, &tickets, id, marks);
            }
            let status = match (tasks.is_empty(), tickets.is_empty()) {
                (false, _) => "fully_covered",
                (true, false) => "partially_covered",
                (true, true) => "not_covered",
            };
            if !row.status.eq_ignore_ascii_case(status) {
                marks.issue(format!("{at}.status"), format!("says {}, but {id} is {status}", row.status));
            }
        }
        for one in self.requirements.requirements.iter().filter(|one| !seen.contains(one.id.as_str())) {
            marks.issue("$.coverage_matrix", format!("has no row for {}", one.id));
        }
    }

    fn stats(&self, output: &Sync, marks: &mut Marks) {
        let stats = &output.traceability_stats;
        let counted = [
            ("requirements", stats.requirements, self.requirements.requirements.len()),
            ("tickets", stats.tickets, self.tasks.tickets.len()),
            ("tasks", stats.tasks, self.tasks.tasks.len()),
            ("dependencies", stats.dependencies, fact::task_edges(&self.tasks).len()),
        ];
        for (key, claim, count) in counted {
            if claim != count as f64 {
                let of = if key == "dependencies" { "dependencies between tasks" } else { key };
                let text = format!("says {claim}, but there are {count} {of}");
                marks.issue(format!("$.traceability_stats.{key}"), text);
            }
        }
    }

    fn dependencies(&self, output: &Sync, marks: &mut Marks) {
        let claims = &output.dependency_analysis;
        let (path, hours) = fact::critical_path(&self.tasks);
        let longest = format!("the longest chain is {} with {hours} hours", path.join(", "));
        let claimed = fact::chain(&self.tasks, &claims.critical_path);
        if !claimed.is_some_and(|claimed| near(claimed, hours)) {
            marks.issue(
                "$.dependency_analysis.critical_path",
                format!("is not the longest chain of dependent tasks; {longest}"),
            );
        }
        if !near(claims.critical_path_hours, hours) {
            let text = format!("says {}, but {longest}", claims.critical_path_hours);
            marks.issue("$.dependency_analysis.critical_path_hours", text);
        }
        self.at_once(&claims.parallel_opportunities, marks);
    }

    /// Those of a group do not wait for each other.
    fn at_once(&self, groups: &[Value], marks: &mut Marks) {
        let before = fact::Before::new(&fact::order_edges(&self.tasks));
        let known: BTreeSet<&str> = self.tasks.tasks.iter().map(|task| task.id.as_str()).collect();
        for (at, group) in groups.iter().enumerate() {
            let at = format!("$.dependency_analysis.parallel_opportunities[{at}]");
            let ids: Vec<&str> = group.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            for id in ids.iter().filter(|id| !known.contains(*id)) {
                marks.issue(at.clone(), format!("{id:?} is no task of this spec"));
            }
            // However often a group names a task, it is one.
            let places: BTreeMap<usize, &str> =
                ids.iter().filter_map(|id| Some((before.place(id)?, *id))).collect();
            for (place, id) in &places {
                let on = places.iter().find(|(on, _)| before.waits(Some(*place), Some(**on)));
                if let Some((_, on)) = on {
                    marks.issue(at.clone(), format!("{id} waits for {on}, so they cannot run at once"));
                }
            }
        }
    }

    fn summary(&self, output: &Sync, marks: &mut Marks) {
        let all = self.requirements.requirements.len();
        let covered = all - self.uncovered_requirements.len();
        let percent = if all == 0 { 100.0 } else { 100.0 * covered as f64 / all as f64 };
        let claim = output.spec_summary.requirement_coverage_percent;
        if (claim - percent).abs() > 0.5 {
            let text = format!(
                "says {claim}, but {covered} of {all} requirements are covered, which is {percent:.0}"
            );
            marks.issue("$.spec_summary.requirement_coverage_percent", text);
        }
    }

    fn ready(&self, output: &Sync, marks: &mut Marks) {
        let at = "$.ready_for_execution";
        let blockers = output.blockers.iter().any(says);
        match (output.ready_for_execution, self.problem()) {
            (true, Some(problem)) => marks.issue(at, format!("says true, but {problem}")),
            (true, None) if blockers => {
                marks.issue(at, "says true, but blockers are named; clear them or say false");
            }
            (true, None) => marks.earn(0.15, 1.0),
            (false, Some(problem)) => {
                marks.issue(at, format!("the tasks cannot be carried out yet: {problem}"));
            }
            (false, None) if blockers => {
                marks.earn(0.15, 0.5);
                marks.issue(at, "says false; nothing runs until the blockers it names are cleared");
            }
            (false, None) => {
                marks.issue(at, "says false, but no blocker is named and nothing is found that is wrong");
            }
        }
    }
}

fn texts(wrong: Vec<Wrong>) -> Vec<String> {
    wrong.into_iter().map(|wrong| wrong.text).collect()
}

fn same(at: &str, claimed: &[String], found: &BTreeSet<&str>, id: &str, marks: &mut Marks) {
    let claimed: BTreeSet<&str> = claimed.iter().map(String::as_str).collect();
    if claimed == *found {
        return;
    }
    let listed = |ids: &BTreeSet<&str>| match ids.is_empty() {
        true => "none".to_owned(),
        false => ids.iter().copied().collect::<Vec<_>>().join(", "),
    };
    marks.issue(at, format!("says {}, but {id} is named by {}", listed(&claimed), listed(found)));
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 0.01
}
