//! An output as Markdown for people. Whatever the output holds is shown: keys without a form of their own come after the
//! others as lists.

use omoi_protocol::spec::{
    Phase,
    output::{Bugfix, Design, Explore, Prd, Requirements, Sync, Task, Tasks},
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::evaluate::says;

mod page;

use page::{Page, code, inline};

pub fn render(phase: Phase, output: &Value) -> String {
    let mut page = Page::default();
    let formed = match phase {
        Phase::Explore => formed(output, &mut page, explore),
        Phase::Prd => formed(output, &mut page, prd),
        Phase::Requirements => formed(output, &mut page, requirements),
        Phase::Design => formed(output, &mut page, design),
        Phase::Tasks => formed(output, &mut page, tasks),
        Phase::Sync => formed(output, &mut page, sync),
    };
    if !formed {
        page.heading(1, &page::titled(phase.as_str()));
        page.value(output, 0);
    }
    page.finish()
}

fn formed<T: for<'de> Deserialize<'de>>(output: &Value, page: &mut Page, form: fn(&T, &mut Page)) -> bool {
    match T::deserialize(output) {
        Ok(output) => {
            form(&output, page);
            true
        }
        Err(_) => false,
    }
}

fn explore(output: &Explore, page: &mut Page) {
    let feature = &output.feature_summary;
    page.heading(1, &format!("Exploration: {}", feature.name));
    page.paragraph(&feature.one_liner);
    page.section("Codebase", |page| {
        page.paragraph(&output.codebase_summary);
        page.field("Project type", &output.project_type);
        page.field("Tech stack", &output.tech_stack.join(", "));
    });
    page.section("Feature", |page| {
        page.paragraph(&feature.problem_statement);
        page.list("In scope", &feature.scope_in);
        page.list("Out of scope", &feature.scope_out);
        page.values("Technical constraints", &feature.technical_constraints);
        page.values("Risks", &feature.risks_identified);
        page.values("Success metrics", &feature.success_metrics);
        page.rest(&feature.rest);
    });
    page.section("Structure", |page| page.map(&output.structure, 0));
    page.section("Key files", |page| {
        let rows = output.key_files.iter().map(|file| vec![code(&file.path), inline(&file.purpose)]);
        page.table(&["File", "Purpose"], rows);
        output.key_files.iter().for_each(|file| page.rest(&file.rest));
    });
    page.section("Patterns", |page| {
        for one in &output.relevant_patterns {
            let files: Vec<String> = one.files.iter().map(|file| code(file)).collect();
            let of = if files.is_empty() { String::new() } else { format!(" ({})", files.join(", ")) };
            page.bullet(0, &format!("**{}** {}{of}", inline(&one.pattern), inline(&one.description)));
            page.rest(&one.rest);
        }
    });
    page.section("Models", |page| {
        for model in &output.existing_models {
            page.bullet(0, &format!("**{}** in {}", inline(&model.name), code(&model.file)));
            page.value(&model.fields, 1);
            page.rest(&model.rest);
        }
    });
    page.section("Conventions", |page| {
        page.pair("Naming", &output.conventions.naming);
        page.pair("Testing", &output.conventions.testing);
        page.values("Patterns", &output.conventions.patterns);
        page.rest(&output.conventions.rest);
    });
    page.section("Entry points", |page| page.bullets(output.entry_points.iter().map(|entry| inline(entry))));
    page.section("Tests", |page| page.value(&output.test_structure, 0));
    page.section("Questions", |page| {
        for group in &output.discovery_questions {
            page.values(&group.category, &group.questions);
            page.rest(&group.rest);
        }
    });
    page.section("Related", |page| page.value(&output.related_to_feature.clone().into(), 0));
    page.section("Notes", |page| page.value(&output.notes, 0));
    page.rest(&output.rest);
}

fn prd(output: &Prd, page: &mut Page) {
    page.heading(1, &format!("Product requirements: {}", output.feature_name));
    page.paragraph(&output.overview.one_liner);
    page.pair("Version", &output.prd_version);
    page.rest(&output.overview.rest);
    page.section("Problem", |page| page.paragraph(&output.overview.problem_statement));
    page.section("Solution", |page| page.paragraph(&output.overview.solution_summary));
    page.section("Goals", |page| {
        page.value(&output.goals.primary, 0);
        page.values("Secondary", &output.goals.secondary);
        let rows =
            output.goals.success_metrics.iter().map(|one| {
                vec![inline(&one.metric), page::short(&one.target), page::short(&one.measurement)]
            });
        page.table(&["Metric", "Target", "Measured by"], rows);
        output.goals.success_metrics.iter().for_each(|one| page.rest(&one.rest));
        page.rest(&output.goals.rest);
    });
    page.section("Users", |page| {
        let user = &output.users.primary;
        page.bullet(0, &format!("**{}** {}", inline(&user.role), inline(&user.description)));
        user.needs.iter().for_each(|need| page.value(need, 1));
        page.rest(&user.rest);
        page.value(&output.users.secondary.clone().into(), 0);
        page.rest(&output.users.rest);
    });
    page.section("User stories", |page| {
        for story in &output.user_stories {
            page.heading(3, &format!("{} {} ({})", story.id, story.title, story.priority).replace("  ", " "));
            let (role, want, benefit) = (inline(&story.role), inline(&story.want), inline(&story.benefit));
            page.paragraph(&format!("As {role}, I want {want}, so that {benefit}."));
            page.bullets(story.acceptance_criteria.iter().map(|one| inline(one)));
            page.rest(&story.rest);
        }
    });
    page.section("Scope", |page| {
        page.list("In scope", &output.scope.in_scope);
        page.list("Out of scope", &output.scope.out_of_scope);
        page.values("Dependencies", &output.scope.dependencies);
        page.rest(&output.scope.rest);
    });
    page.section("Assumptions", |page| page.value(&output.assumptions.clone().into(), 0));
    page.section("Constraints", |page| {
        page.values("Technical", &output.constraints.technical);
        page.values("Business", &output.constraints.business);
        page.rest(&output.constraints.rest);
    });
    page.section("Risks", |page| {
        let rows = output.risks.iter().map(|risk| {
            let told = [&risk.impact, &risk.likelihood, &risk.mitigation].map(page::short);
            [inline(&risk.risk)].into_iter().chain(told).collect()
        });
        page.table(&["Risk", "Impact", "Likelihood", "Mitigation"], rows);
        output.risks.iter().for_each(|risk| page.rest(&risk.rest));
    });
    page.section("Open questions", |page| page.value(&output.open_questions.clone().into(), 0));
    page.section("Related features", |page| page.value(&output.related_features.clone().into(), 0));
    page.section("Revisions", |page| page.value(&output.revision_history.clone().into(), 0));
    page.rest(&output.rest);
}

fn requirements(output: &Requirements, page: &mut Page) {
    page.heading(1, &format!("Requirements: {}", output.feature_name));
    for one in &output.requirements {
        page.heading(2, &format!("{} {}", one.id, one.title));
        page.quote(&one.text);
        let told = [("Category", &one.category), ("Priority", &one.priority)];
        told.into_iter().for_each(|(name, word)| page.field(name, word));
        page.list("Acceptance criteria", &one.acceptance_criteria);
        page.field("Depends on", &one.dependencies.join(", "));
        page.field("From", &one.user_stories.join(", "));
        page.pair("Type", &one.r#type);
        page.pair("Notes", &one.notes);
        page.rest(&one.rest);
    }
    page.section("Assumptions", |page| page.value(&output.assumptions.clone().into(), 0));
    page.section("Out of scope", |page| page.value(&output.out_of_scope.clone().into(), 0));
    page.section("Open questions", |page| page.value(&output.open_questions.clone().into(), 0));
    page.section("Traceability", |page| page.map(&output.traceability, 0));
    page.rest(&output.rest);
}

fn design(output: &Design, page: &mut Page) {
    page.heading(1, &format!("Design: {}", output.feature_name));
    page.paragraph(&output.architecture_overview);
    match &output.architecture_diagram {
        Value::String(diagram) if says(&output.architecture_diagram) => page.fence("mermaid", diagram),
        other => page.value(other, 0),
    }
    page.section("Components", |page| {
        for one in &output.components {
            page.heading(3, &one.name);
            page.paragraph(&one.description);
            page.field("Responsibility", &one.responsibility);
            page.pair("Type", &one.r#type);
            if !one.file_path.is_empty() {
                let action =
                    if one.action.is_empty() { String::new() } else { format!(" ({})", inline(&one.action)) };
                page.bullet(0, &format!("**File:** {}{action}", code(&one.file_path)));
            }
            page.values("Interfaces", &one.interfaces);
            page.values("Depends on", &one.dependencies);
            page.field("Requirements", &one.requirements.join(", "));
            page.rest(&one.rest);
        }
    });
    page.section("Data models", |page| {
        for model in &output.data_models {
            page.heading(3, &model.name);
            page.pair("Table", &model.table_name);
            page.value(&model.description, 0);
            let rows = model.fields.iter().map(|(field, of)| vec![code(field), page::short(of)]);
            page.table(&["Field", "Type"], rows);
            page.values("Indexes", &model.indexes);
            page.values("Relationships", &model.relationships);
            page.rest(&model.rest);
        }
    });
    page.section("Endpoints", |page| {
        for one in &output.api_endpoints {
            page.heading(3, &format!("{} {}", one.method, one.path));
            page.paragraph(&one.description);
            one.auth_required
                .iter()
                .for_each(|auth| page.field("Signed in", if *auth { "yes" } else { "no" }));
            page.pair("Request", &one.request_schema);
            page.pair("Response", &one.response_schema);
            page.pair("Errors", &one.error_responses);
            page.rest(&one.rest);
        }
    });
    page.section("Integration", |page| page.value(&output.integration_points.clone().into(), 0));
    page.section("Errors", |page| page.value(&output.error_handling, 0));
    page.section("Tests", |page| {
        page.values("Unit", &output.testing_strategy.unit_tests);
        page.values("Integration", &output.testing_strategy.integration_tests);
        page.rest(&output.testing_strategy.rest);
    });
    page.section("Security", |page| page.value(&output.security_considerations.clone().into(), 0));
    page.section("Migration", |page| page.value(&output.migration_plan, 0));
    page.rest(&output.rest);
}

fn tasks(output: &Tasks, page: &mut Page) {
    page.heading(1, &format!("Tasks: {}", output.feature_name));
    if let Some(hours) = output.total_estimated_hours {
        page.field("Hours in all", &hours.to_string());
    }
    page.field("Critical path", &output.critical_path.join(" → "));
    if let Some(bugfix) = &output.bugfix {
        page.section("The bug", |page| bug(bugfix, page));
    }
    for ticket in &output.tickets {
        page.heading(2, &format!("{} {}", ticket.id, ticket.title));
        page.paragraph(&ticket.description);
        page.field("Priority", &ticket.priority);
        page.field("Estimate", &ticket.estimate);
        page.field("Requirements", &ticket.requirements.join(", "));
        page.field("Blocked by", &ticket.dependencies.blocked_by.join(", "));
        page.field("Blocks", &ticket.dependencies.blocks.join(", "));
        page.list("Acceptance criteria", &ticket.acceptance_criteria);
        page.rest(&ticket.dependencies.rest);
        page.rest(&ticket.rest);
        output.tasks.iter().filter(|task| task.parent_ticket == ticket.id).for_each(|one| task(one, page));
    }
    let ticketed = |id: &str| output.tickets.iter().any(|ticket| ticket.id == id);
    output.tasks.iter().filter(|task| !ticketed(&task.parent_ticket)).for_each(|one| task(one, page));
    page.rest(&output.rest);
}

fn bug(bugfix: &Bugfix, page: &mut Page) {
    let Bugfix { reproduce, cause, fix, guard, rest } = bugfix;
    page.list("Steps", &reproduce.steps);
    page.field("Command", &reproduce.command);
    page.field("Observed", &reproduce.observed);
    page.field("Expected", &reproduce.expected);
    page.bullet(0, &format!("**Cause:** {} {}", code(&cause.file), inline(&cause.explanation)));
    page.field("Mended by", &fix.join(", "));
    page.bullet(0, &format!("**Guarded by:** {} ({})", code(&guard.test), inline(&guard.tasks.join(", "))));
    [&reproduce.rest, &cause.rest, &guard.rest, rest].into_iter().for_each(|rest| page.rest(rest));
}

fn task(task: &Task, page: &mut Page) {
    page.heading(3, &format!("{} {}", task.id, task.title));
    page.paragraph(&task.description);
    page.field("Type", &task.r#type);
    page.field("Priority", &task.priority);
    page.field("Estimate", &task.estimate);
    task.estimated_hours.iter().for_each(|hours| page.field("Hours", &hours.to_string()));
    page.field("Makes", &task.files_to_create.join(", "));
    page.field("Modifies", &task.files_to_modify.join(", "));
    page.field("Depends on", &task.dependencies.depends_on.join(", "));
    page.field("Blocks", &task.dependencies.blocks.join(", "));
    page.field("Requirements", &task.requirements_addressed.join(", "));
    page.list("Acceptance criteria", &task.acceptance_criteria);
    page.rest(&task.dependencies.rest);
    page.rest(&task.rest);
}

fn sync(output: &Sync, page: &mut Page) {
    page.heading(1, "Sync");
    page.field("Ready for execution", if output.ready_for_execution { "yes" } else { "no" });
    page.section("Validation", |page| {
        let claims = &output.validation_results;
        let told = [
            ("All requirements covered", claims.all_requirements_covered),
            ("All components have tasks", claims.all_design_components_have_tasks),
            ("Order of dependencies valid", claims.dependency_order_valid),
            ("No circular dependencies", claims.no_circular_dependencies),
            ("All ids valid", claims.all_ids_valid),
        ];
        told.into_iter().for_each(|(name, claim)| page.field(name, if claim { "yes" } else { "no" }));
        page.values("Issues", &claims.issues_found);
        page.values("Warnings", &claims.warnings);
        page.rest(&claims.rest);
    });
    page.section("Coverage", |page| {
        let rows = output.coverage_matrix.iter().map(|row| {
            let (tasks, tickets) = (row.covered_by_tasks.join(", "), row.covered_by_tickets.join(", "));
            let named = inline(&format!("{} {}", row.requirement_id, row.requirement_title));
            vec![
                named,
                inline(&tasks),
                inline(&tickets),
                inline(&row.status),
                page::short(&row.coverage_notes),
            ]
        });
        page.table(&["Requirement", "Tasks", "Tickets", "Status", "Notes"], rows);
        output.coverage_matrix.iter().for_each(|row| page.rest(&row.rest));
    });
    page.section("Counts", |page| {
        let stats = &output.traceability_stats;
        page.field("Requirements", &stats.requirements.to_string());
        page.field("Tickets", &stats.tickets.to_string());
        page.field("Tasks", &stats.tasks.to_string());
        page.field("Dependencies", &stats.dependencies.to_string());
        page.rest(&stats.rest);
    });
    page.section("Dependencies", |page| {
        let claims = &output.dependency_analysis;
        page.field("Critical path", &claims.critical_path.join(" → "));
        page.field("Hours on it", &claims.critical_path_hours.to_string());
        page.values("At once", &claims.parallel_opportunities);
        page.pair("Tasks", &claims.task_dependency_graph);
        page.pair("Tickets", &claims.ticket_dependency_graph);
        page.rest(&claims.rest);
    });
    page.section("Summary", |page| {
        let percent = output.spec_summary.requirement_coverage_percent;
        page.field("Requirements covered", &format!("{percent} %"));
        page.map(&output.spec_summary.rest, 0);
    });
    page.section("Blockers", |page| page.value(&output.blockers.clone().into(), 0));
    page.section("Recommendations", |page| page.value(&output.recommendations.clone().into(), 0));
    page.rest(&output.rest);
}

impl Page {
    /// Keys that no form knows; those that begin with `_` are about the making and not about the matter.
    fn rest(&mut self, rest: &Map<String, Value>) {
        for (key, value) in rest.iter().filter(|(key, _)| !key.starts_with('_')) {
            self.pair(&page::titled(key), value);
        }
    }
}
