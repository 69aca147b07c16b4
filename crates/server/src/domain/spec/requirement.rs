//! What the feature must do: each requirement in EARS form, with criteria that can be tested.

use std::collections::{BTreeMap, BTreeSet};

use omoi_protocol::spec::{
    Phase,
    output::{CATEGORIES, Prd, Requirement, Requirements},
};

use super::{
    ears,
    evaluate::{Known, Marks, says, share},
    name,
};
use crate::domain::graph;

const CRITERIA_MIN: usize = 2;
const CRITERION_WORDS_MIN: usize = 3;
/// Words that no test can decide, unless a number or a quoted text makes them definite.
const VAGUE: [&str; 11] = [
    "appropriate",
    "appropriately",
    "correctly",
    "easy",
    "fast",
    "good",
    "intuitive",
    "nice",
    "properly",
    "user-friendly",
    "well",
];

pub fn judge(output: &Requirements, known: &Known<'_>, marks: &mut Marks) {
    let requirements = &output.requirements;
    if requirements.is_empty() {
        return marks.issue("$.requirements", "is empty; there is nothing to design or to test");
    }
    marks.earn(0.05, 1.0);
    let stories = stories(known);
    let mut parts = Parts::default();
    for (at, requirement) in requirements.iter().enumerate() {
        parts.add(requirement, &format!("$.requirements[{at}]"), stories.as_ref(), marks);
    }
    let of = |good: usize| share(good, requirements.len());
    marks.earn(0.20, of(parts.resolved));
    marks.earn(0.20, of(parts.normative));
    marks.earn(0.15, if parts.triggered > 0 { 1.0 } else { 0.5 });
    if parts.triggered == 0 && parts.normative > 0 {
        marks.warn("$.requirements", "none starts with WHEN, WHILE, WHERE or IF; say when each one applies");
    }
    marks.earn(0.20, of(parts.criteria));
    marks.earn(0.05, of(parts.named));
    references(requirements, marks);
    marks.expect(0.05, output.assumptions.iter().any(says), "$.assumptions", "is empty");
    marks.expect(0.05, output.out_of_scope.iter().any(says), "$.out_of_scope", "is empty");
    trace(output, stories.as_ref(), marks);
}

/// Whether there are enough criteria, each of which can be tested; says so where not.
pub fn criteria(criteria: &[String], wanted: usize, at: &str, marks: &mut Marks) -> bool {
    let before = marks.issues();
    let mut seen = BTreeSet::new();
    for (index, text) in criteria.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        if words.len() < CRITERION_WORDS_MIN {
            marks.issue(at, format!("{text:?} cannot be tested; say what is done and what must be seen"));
        } else if !seen.insert(words.join(" ")) {
            marks.issue(at, "says the same as a criterion before it");
        } else if let Some(word) = vague(&words) {
            marks.warn(at, format!("{word:?} is not definite; give a number or the exact result"));
        }
    }
    if criteria.len() < wanted {
        marks.issue(at, format!("has {}; at least {wanted} that can be tested are needed", criteria.len()));
    }
    marks.issues() == before
}

fn vague(words: &[String]) -> Option<&'static str> {
    let definite = words.iter().any(|word| word.contains(|c: char| c.is_ascii_digit() || "\"`'".contains(c)));
    if definite {
        return None;
    }
    let bare = |word: &String| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    VAGUE.into_iter().find(|vague| words.iter().any(|word| bare(word) == *vague))
}

#[derive(Default)]
struct Parts<'a> {
    ids: BTreeSet<&'a str>,
    named: usize,
    normative: usize,
    triggered: usize,
    criteria: usize,
    resolved: usize,
}

impl<'a> Parts<'a> {
    fn add(&mut self, one: &'a Requirement, at: &str, stories: Option<&Stories>, marks: &mut Marks) {
        let before = marks.issues();
        if !name::is_requirement(&one.id, CATEGORIES) {
            marks.issue(
                format!("{at}.id"),
                format!("{:?} is no id such as REQ-FEATURE-FUNC-001 ({})", one.id, CATEGORIES.join(", ")),
            );
        } else if !self.ids.insert(&one.id) {
            marks.issue(format!("{at}.id"), format!("{} is given to more than one requirement", one.id));
        } else {
            self.named += 1;
        }
        match ears::parse(&one.text) {
            Ok(ears) => {
                self.normative += 1;
                self.triggered += usize::from(ears.condition.is_some());
            }
            Err(why) => marks.issue(format!("{at}.text"), why),
        }
        let good =
            criteria(&one.acceptance_criteria, CRITERIA_MIN, &format!("{at}.acceptance_criteria"), marks);
        self.criteria += usize::from(good);
        for (index, story) in one.user_stories.iter().enumerate() {
            if stories.is_some_and(|stories| !stories.contains_key(story)) {
                marks.issue(format!("{at}.user_stories[{index}]"), format!("{story} is no story of the prd"));
            }
        }
        self.resolved += usize::from(marks.issues() == before);
    }
}

/// Each story of the prd, and whether it is a must.
type Stories = BTreeMap<String, bool>;

fn stories(known: &Known<'_>) -> Option<Stories> {
    let prd: Prd = known.output(Phase::Prd)?;
    let must = |priority: &str| priority.eq_ignore_ascii_case("must");
    Some(prd.user_stories.into_iter().map(|story| (story.id, must(&story.priority))).collect())
}

fn references(requirements: &[Requirement], marks: &mut Marks) {
    let ids: BTreeSet<&str> = requirements.iter().map(|one| one.id.as_str()).collect();
    let mut edges = Vec::new();
    for (at, one) in requirements.iter().enumerate() {
        for (index, on) in one.dependencies.iter().enumerate() {
            if ids.contains(on.as_str()) {
                edges.push((one.id.as_str(), on.as_str()));
            } else {
                let at = format!("$.requirements[{at}].dependencies[{index}]");
                marks.issue(at, format!("{on} is no requirement of this output"));
            }
        }
    }
    if let Some(cycle) = graph::find_cycle(&[], &edges) {
        marks.issue("$.requirements", format!("depend on each other in a circle: {}", cycle.join(" → ")));
    }
}

/// Every must of the prd comes back in a requirement that names it.
fn trace(output: &Requirements, stories: Option<&Stories>, marks: &mut Marks) {
    let named: BTreeSet<&String> = output.requirements.iter().flat_map(|one| &one.user_stories).collect();
    let Some(stories) = stories else {
        return marks.earn(0.05, 1.0);
    };
    let musts: Vec<&String> = stories.iter().filter(|(_, must)| **must).map(|(id, _)| id).collect();
    let missing: Vec<&str> = musts.iter().filter(|id| !named.contains(**id)).map(|id| id.as_str()).collect();
    marks.earn(0.05, share(musts.len() - missing.len(), musts.len()));
    if !missing.is_empty() {
        let text = format!("no requirement names {} in its user_stories", missing.join(", "));
        marks.warn("$.requirements", text);
    }
}
