//! Budgets: how much money an attempt, its task and its project may spend on model calls, and whether one more call
//! may be made. Each level counts for itself, so the tightest of them decides.

use omoi_protocol::BudgetLevel;
use serde_json::{Map, Value as Json};

use super::money::Usd;

/// What counts where neither the task nor the project says; zero is no limit.
#[derive(Debug, Clone, Copy)]
pub struct Defaults {
    pub attempt: Usd,
    pub task: Usd,
    pub project: Usd,
}

/// How one level stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub level: BudgetLevel,
    pub limit: Option<Usd>,
    /// With what workers report where the gateway has no figure.
    pub spent: Usd,
    /// That part of it.
    pub reported: Usd,
    /// What calls that are under way may come to.
    pub reserved: Usd,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Admitted,
    /// Nothing is left but what calls under way have reserved and may not use.
    Wait(Standing),
    /// These levels are used up.
    Exceeded(Vec<Standing>),
}

/// A call may go over by what it costs itself, and no second one may while it runs.
pub fn judge(standings: &[Standing]) -> Verdict {
    let over = |amount: Usd, of: &Standing| of.limit.is_some_and(|limit| amount >= limit);
    let exceeded: Vec<Standing> = standings.iter().filter(|of| over(of.spent, of)).copied().collect();
    if !exceeded.is_empty() {
        return Verdict::Exceeded(exceeded);
    }
    match standings.iter().find(|of| over(of.spent + of.reserved, of)) {
        Some(full) => Verdict::Wait(*full),
        None => Verdict::Admitted,
    }
}

/// The limit of each level, from a task's `execution_config` and its project's `settings`.
///
/// An attempt has `max_total_cost_usd`, a task `budget_usd`, a project `budget_usd`. A task's `max_budget_usd` bounds
/// one query of the agent, which cannot be told apart here; where it stands alone, it bounds the task.
pub fn limit(
    level: BudgetLevel,
    defaults: &Defaults,
    task: &Map<String, Json>,
    project: &Map<String, Json>,
) -> Option<Usd> {
    let (set, default) = match level {
        BudgetLevel::Attempt => (amount(task, "max_total_cost_usd"), defaults.attempt),
        BudgetLevel::Task => {
            let alone = !task.contains_key("max_total_cost_usd");
            let query = amount(task, "max_budget_usd").filter(|_| alone);
            (amount(task, "budget_usd").or(query), defaults.task)
        }
        BudgetLevel::Project => (amount(project, "budget_usd"), defaults.project),
    };
    Some(set.unwrap_or(default)).filter(|limit| *limit > Usd::ZERO)
}

/// What is wrong with the budgets that somebody wrote into a task's or project's settings.
pub fn check(settings: &Map<String, Json>) -> Result<(), String> {
    for key in ["budget_usd", "max_budget_usd", "max_total_cost_usd"] {
        if settings.get(key).is_some_and(|value| !value.is_null()) && amount(settings, key).is_none() {
            return Err(format!("{key} is {}; it must be an amount in USD, 0 for no limit", settings[key]));
        }
    }
    Ok(())
}

fn amount(settings: &Map<String, Json>, key: &str) -> Option<Usd> {
    settings.get(key)?.as_f64().and_then(Usd::from_f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn usd(text: &str) -> Usd {
        text.parse().unwrap()
    }

    fn standing(level: BudgetLevel, limit: Option<&str>, spent: &str, reserved: &str) -> Standing {
        Standing {
            level,
            limit: limit.map(usd),
            spent: usd(spent),
            reported: Usd::ZERO,
            reserved: usd(reserved),
        }
    }

    #[test]
    fn a_call_is_admitted_while_every_level_has_something_left() {
        use BudgetLevel::{Attempt, Project, Task};
        let free = standing(Project, None, "1000", "1000");
        let left = standing(Attempt, Some("1"), "0.5", "0.499999999");
        let full = standing(Task, Some("1"), "0.5", "0.5");
        let over = standing(Attempt, Some("1"), "1", "0");
        for (standings, verdict) in [
            (vec![], Verdict::Admitted),
            (vec![free, left], Verdict::Admitted),
            (vec![left, full, free], Verdict::Wait(full)),
            (vec![full, over], Verdict::Exceeded(vec![over])),
            (vec![over, left, standing(Project, Some("2"), "3", "0")], {
                Verdict::Exceeded(vec![over, standing(Project, Some("2"), "3", "0")])
            }),
        ] {
            assert_eq!(judge(&standings), verdict);
        }
    }

    #[test]
    fn limits_come_from_the_task_and_the_project_before_the_defaults() {
        let defaults = Defaults { attempt: usd("20"), task: Usd::ZERO, project: usd("100") };
        for (task, project, attempt, of_task, of_project) in [
            (json!({}), json!({}), Some("20"), None, Some("100")),
            (json!({ "max_total_cost_usd": 5 }), json!({ "budget_usd": 7.5 }), Some("5"), None, Some("7.5")),
            (json!({ "max_budget_usd": 0.01 }), json!({ "budget_usd": 0 }), Some("20"), Some("0.01"), None),
            (
                json!({ "max_budget_usd": 2, "max_total_cost_usd": 9 }),
                json!({}),
                Some("9"),
                None,
                Some("100"),
            ),
            (json!({ "max_budget_usd": 2, "budget_usd": 8 }), json!({}), Some("20"), Some("8"), Some("100")),
            (json!({ "budget_usd": "8" }), json!({ "budget_usd": -1 }), Some("20"), None, Some("100")),
        ] {
            let (task, project) = (task.as_object().unwrap(), project.as_object().unwrap());
            let of = |level| limit(level, &defaults, task, project);
            let found = [of(BudgetLevel::Attempt), of(BudgetLevel::Task), of(BudgetLevel::Project)];
            assert_eq!(
                found,
                [attempt, of_task, of_project].map(|limit| limit.map(usd)),
                "{task:?} {project:?}"
            );
        }
    }

    #[test]
    fn a_budget_that_cannot_be_read_is_named() {
        for (settings, fine) in [
            (json!({ "budget_usd": 1.5, "max_budget_usd": 0, "other": "x" }), true),
            (json!({ "budget_usd": null }), true),
            (json!({ "budget_usd": "1.5" }), false),
            (json!({ "max_total_cost_usd": -1 }), false),
            (json!({ "max_budget_usd": 1e20 }), false),
        ] {
            assert_eq!(check(settings.as_object().unwrap()).is_ok(), fine, "{settings}");
        }
    }
}
