//! How the feature is built: components with files that are there or are to be made.

use std::collections::BTreeSet;

use omoi_protocol::spec::{
    Phase,
    output::{Component, Design, Requirements},
};

use super::{
    evaluate::{Known, Marks, says, share},
    name,
};

const OVERVIEW_CHARS_MIN: usize = 100;
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

pub fn judge(output: &Design, known: &Known<'_>, marks: &mut Marks) {
    if output.components.is_empty() {
        return marks.issue("$.components", "is empty; a design without components gives no tasks");
    }
    marks.earn(0.05, 1.0);
    let overview = output.architecture_overview.trim().chars().count();
    marks.earn(0.15, share(overview, OVERVIEW_CHARS_MIN));
    if overview < OVERVIEW_CHARS_MIN {
        marks.warn(
            "$.architecture_overview",
            format!("says too little; use at least {OVERVIEW_CHARS_MIN} characters"),
        );
    }
    components(output, known, marks);
    models(output, marks);
    endpoints(output, marks);
    let testing = &output.testing_strategy;
    let tested = testing.unit_tests.iter().chain(&testing.integration_tests).any(says);
    marks.expect(0.10, tested, "$.testing_strategy", "names no test");
    marks.expect(0.08, says(&output.error_handling), "$.error_handling", "is empty");
    let secured = output.security_considerations.iter().filter(|value| says(value)).count();
    marks.at_least(0.07, secured, 2, "$.security_considerations");
    marks.expect(0.05, output.integration_points.iter().any(says), "$.integration_points", "is empty");
}

fn components(output: &Design, known: &Known<'_>, marks: &mut Marks) {
    let requirements: Option<Requirements> = known.output(Phase::Requirements);
    let ids: Option<BTreeSet<String>> =
        requirements.map(|all| all.requirements.into_iter().map(|one| one.id).collect());
    let (mut names, mut good) = (BTreeSet::new(), 0);
    for (at, component) in output.components.iter().enumerate() {
        let at = format!("$.components[{at}]");
        let before = marks.issues();
        if !names.insert(component.name.trim().to_lowercase()) {
            marks.issue(
                format!("{at}.name"),
                format!("{:?} is given to more than one component", component.name),
            );
        }
        file(component, &at, known, marks);
        for (index, id) in component.requirements.iter().enumerate() {
            if ids.as_ref().is_some_and(|ids| !ids.contains(id)) {
                marks.issue(
                    format!("{at}.requirements[{index}]"),
                    format!("{id} is no requirement of this spec"),
                );
            }
        }
        good += usize::from(marks.issues() == before);
    }
    marks.earn(0.20, share(good, output.components.len()));
}

/// The file is there, or said to be made.
fn file(component: &Component, at: &str, known: &Known<'_>, marks: &mut Marks) {
    if component.file_path.is_empty() {
        return;
    }
    let path = match name::path(component.file_path.trim_end_matches('/')) {
        Ok(path) => path,
        Err(why) => return marks.issue(format!("{at}.file_path"), why),
    };
    let (there, create) =
        (name::is_there(known.files, path), component.action.eq_ignore_ascii_case("create"));
    if !there && !create {
        let meant = known.meant(marks, path);
        marks.issue(
            format!("{at}.file_path"),
            format!(
                "{path:?} is not in the repository{meant}; if it is to be made, say \"action\": \"create\""
            ),
        );
    } else if there && create {
        marks.issue(format!("{at}.action"), format!("{path:?} is in the repository already; say \"modify\""));
    }
}

fn models(output: &Design, marks: &mut Marks) {
    let good = output.data_models.iter().filter(|model| !model.fields.is_empty()).count();
    let part = if output.data_models.is_empty() { 0.3 } else { share(good, output.data_models.len()) };
    marks.earn(0.15, part);
    for (at, model) in output.data_models.iter().enumerate() {
        if model.fields.is_empty() {
            marks.warn(
                format!("$.data_models[{at}].fields"),
                format!("says nothing of what {} holds", model.name),
            );
        }
    }
}

fn endpoints(output: &Design, marks: &mut Marks) {
    let (mut seen, mut good) = (BTreeSet::new(), 0);
    for (at, endpoint) in output.api_endpoints.iter().enumerate() {
        let at = format!("$.api_endpoints[{at}]");
        let method = endpoint.method.to_uppercase();
        if !METHODS.contains(&method.as_str()) {
            marks.issue(
                format!("{at}.method"),
                format!("{:?} is not one of {}", endpoint.method, METHODS.join(", ")),
            );
        } else if !endpoint.path.starts_with('/') {
            marks.issue(format!("{at}.path"), format!("{:?} does not start with /", endpoint.path));
        } else if !seen.insert((method, endpoint.path.as_str())) {
            marks.issue(at, format!("{} {} is there twice", endpoint.method, endpoint.path));
        } else {
            good += 1;
        }
    }
    let part = if output.api_endpoints.is_empty() { 0.3 } else { share(good, output.api_endpoints.len()) };
    marks.earn(0.15, part);
}
