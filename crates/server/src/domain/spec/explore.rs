//! What was found out about the repository: only what is really in it counts.

use std::collections::BTreeSet;

use omoi_protocol::spec::output::Explore;

use super::{
    evaluate::{Known, Marks, says, share},
    name,
};

const SUMMARY_CHARS_MIN: usize = 50;
const CATEGORIES: [&str; 5] =
    ["Problem & Value", "Users & Journeys", "Scope & Boundaries", "Technical Context", "Trade-offs & Risks"];

pub fn judge(output: &Explore, known: &Known<'_>, marks: &mut Marks) {
    let summary = output.codebase_summary.trim().chars().count() > SUMMARY_CHARS_MIN;
    marks.expect(
        0.12,
        summary,
        "$.codebase_summary",
        "says too little; describe the codebase in a few sentences",
    );
    marks.expect(0.08, !output.project_type.trim().is_empty(), "$.project_type", "is empty");
    marks.at_least(0.10, output.tech_stack.len(), 2, "$.tech_stack");
    marks.at_least(0.10, output.structure.len(), 2, "$.structure");
    files(output, known, marks);
    let conventions = [&output.conventions.naming, &output.conventions.testing];
    let said = conventions.iter().filter(|value| says(value)).count()
        + usize::from(output.conventions.patterns.iter().any(says));
    marks.at_least(0.10, said, 2, "$.conventions");
    questions(output, marks);
    feature(output, marks);
    marks.expect(0.04, !output.relevant_patterns.is_empty(), "$.relevant_patterns", "is empty");
    marks.expect(0.04, output.related_to_feature.iter().any(says), "$.related_to_feature", "is empty");
}

fn files(output: &Explore, known: &Known<'_>, marks: &mut Marks) {
    let mut there = BTreeSet::new();
    for (at, file) in output.key_files.iter().enumerate() {
        if is_there(&file.path, &format!("$.key_files[{at}].path"), known, marks) {
            there.insert(file.path.as_str());
        }
    }
    marks.at_least(0.15, there.len(), known.files.len().min(3), "$.key_files");
    for (at, pattern) in output.relevant_patterns.iter().enumerate() {
        for (file_at, file) in pattern.files.iter().enumerate() {
            is_there(file, &format!("$.relevant_patterns[{at}].files[{file_at}]"), known, marks);
        }
    }
    for (at, model) in output.existing_models.iter().enumerate() {
        is_there(&model.file, &format!("$.existing_models[{at}].file"), known, marks);
    }
}

fn is_there(path: &str, at: &str, known: &Known<'_>, marks: &mut Marks) -> bool {
    let there = name::is_there(known.files, path);
    if !there {
        let meant = known.meant(marks, path);
        marks.issue(at, format!("{path:?} is not in the repository{meant}"));
    }
    there
}

fn questions(output: &Explore, marks: &mut Marks) {
    let asked = |category: &str| {
        output.discovery_questions.iter().any(|group| {
            group.category.trim().eq_ignore_ascii_case(category) && group.questions.iter().any(says)
        })
    };
    let missing: Vec<&str> = CATEGORIES.into_iter().filter(|category| !asked(category)).collect();
    marks.earn(0.15, share(CATEGORIES.len() - missing.len(), CATEGORIES.len()));
    if !missing.is_empty() {
        marks.warn("$.discovery_questions", format!("asks nothing about {}", missing.join(", ")));
    }
}

fn feature(output: &Explore, marks: &mut Marks) {
    let feature = &output.feature_summary;
    let told = [
        !feature.scope_in.is_empty(),
        !feature.scope_out.is_empty(),
        feature.success_metrics.iter().any(says),
    ];
    marks.earn(0.12, share(told.iter().filter(|told| **told).count(), told.len()));
    for (told, key) in told.into_iter().zip(["scope_in", "scope_out", "success_metrics"]) {
        if !told {
            marks.warn(format!("$.feature_summary.{key}"), "is empty");
        }
    }
}
