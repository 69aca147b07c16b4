//! What dispatch may take: which tasks are for it, and why one that waits is not taken.

use jiff::Timestamp;
use omoi_protocol::{WaitingFor, task::Waiting};
use serde_json::{Map, Value as Json};

use super::model_key::MissingKey;

/// Added to the number of a lane by dispatch, once it has found that the task's model has no key. So the index by which
/// dispatch looks for tasks passes over all of them at once.
pub const WITHOUT_KEY: i64 = 10;

/// Whether dispatch may take a task. The numbers are the store's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// A person or an attached agent takes it.
    Never = 0,
    /// Where its project is autonomous.
    Project = 1,
    /// In any project.
    Always = 2,
}

/// What a task itself says: one that asks for capabilities is for attached agents; `autonomous` of its
/// `execution_config` wins over its project's, and `force_execute` is another word for it.
pub fn lane(required_capabilities: &[String], execution_config: &Map<String, Json>) -> Lane {
    let says = |key| execution_config.get(key).and_then(Json::as_bool);
    match (says("autonomous"), says("force_execute")) {
        _ if !required_capabilities.is_empty() => Lane::Never,
        (Some(true), _) | (None, Some(true)) => Lane::Always,
        (Some(false), _) => Lane::Never,
        (None, _) => Lane::Project,
    }
}

/// Whether a project's settings say that its tasks need nobody to start them.
pub fn autonomous(settings: &Map<String, Json>) -> Option<bool> {
    settings.get("autonomous").and_then(Json::as_bool)
}

/// What is wrong with the switches in a project's or task's settings, naming the field.
pub fn check(of: &str, settings: &Map<String, Json>) -> Result<(), String> {
    for key in ["autonomous", "force_execute"] {
        match settings.get(key) {
            None | Some(Json::Null | Json::Bool(_)) => {}
            Some(value) => return Err(format!("{of}.{key} is {value}; it must be true or false")),
        }
    }
    Ok(())
}

/// What stands between a pending task and dispatch.
#[derive(Debug, Clone)]
pub struct Situation {
    pub unmet_dependencies: i64,
    pub not_before: Option<Timestamp>,
    pub lane: Lane,
    pub asks_capabilities: bool,
    pub archived: bool,
    pub paused: bool,
    pub has_repository: bool,
    /// The key that its model needs, where the server does not have it.
    pub missing_key: Option<MissingKey>,
    /// Of the project, the configured default included.
    pub autonomous: bool,
    /// Sandboxes of the project, and how many it may have.
    pub project: (i64, i64),
    /// Sandboxes with a task in all projects, and how many there may be.
    pub all: (i64, i64),
    /// What the attempt before has left is not kept yet.
    pub keeping: bool,
}

/// The first thing that a pending task waits for; none when it is its turn.
pub fn waiting_for(at: &Situation) -> Option<Waiting> {
    let waits = |reason, text: String| Some(Waiting { reason, text });
    if at.unmet_dependencies > 0 {
        return waits(
            WaitingFor::Dependencies,
            format!("{} of the tasks before it are not completed", at.unmet_dependencies),
        );
    }
    if let Some(due) = at.not_before {
        return waits(WaitingFor::NotBefore, format!("it is tried again at {due}"));
    }
    if at.archived {
        return waits(WaitingFor::Archived, "its project is archived".to_owned());
    }
    if at.paused {
        return waits(WaitingFor::Paused, "its project is paused; resume it".to_owned());
    }
    if at.asks_capabilities {
        let text = "an attached agent with its required_capabilities has to claim it";
        return waits(WaitingFor::Capabilities, text.to_owned());
    }
    if !at.has_repository {
        return waits(
            WaitingFor::NoRepository,
            "its project has no repository; set its repository_url".to_owned(),
        );
    }
    if let Some(missing) = &at.missing_key {
        return waits(WaitingFor::ModelKey, missing.to_string());
    }
    if at.lane == Lane::Never || (at.lane == Lane::Project && !at.autonomous) {
        return waits(WaitingFor::NotAutonomous, "somebody has to start it".to_owned());
    }
    if at.keeping {
        return waits(WaitingFor::Keeping, "what the attempt before it left is being kept".to_owned());
    }
    if at.project.0 >= at.project.1 {
        let (live, max) = at.project;
        return waits(
            WaitingFor::ProjectLimit,
            format!("{live} sandboxes of {max} of its project are in use"),
        );
    }
    if at.all.0 >= at.all.1 {
        let (live, max) = at.all;
        return waits(
            WaitingFor::GlobalLimit,
            format!("{live} sandboxes of {max} (dispatch.max_live) are in use"),
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use omoi_protocol::Vendor;
    use serde_json::json;

    use super::*;

    fn object(value: Json) -> Map<String, Json> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_task_says_who_may_take_it() {
        for (config, lane_of) in [
            (json!({}), Lane::Project),
            (json!({ "autonomous": null, "force_execute": false }), Lane::Project),
            (json!({ "force_execute": true }), Lane::Always),
            (json!({ "autonomous": true }), Lane::Always),
            (json!({ "autonomous": false }), Lane::Never),
            (json!({ "autonomous": false, "force_execute": true }), Lane::Never),
        ] {
            assert_eq!(lane(&[], &object(config.clone())), lane_of, "{config}");
            assert_eq!(lane(&["gpu".to_owned()], &object(config)), Lane::Never);
        }
    }

    #[test]
    fn a_switch_is_true_or_false() {
        for (config, fine) in [
            (json!({ "autonomous": true, "force_execute": null }), true),
            (json!({ "autonomous": "yes" }), false),
            (json!({ "force_execute": 1 }), false),
        ] {
            assert_eq!(check("settings", &object(config.clone())).is_ok(), fine, "{config}");
        }
    }

    #[test]
    fn what_a_task_waits_for_is_named_and_the_nearest_reason_comes_first() {
        let free = Situation {
            unmet_dependencies: 0,
            not_before: None,
            lane: Lane::Project,
            asks_capabilities: false,
            archived: false,
            paused: false,
            has_repository: true,
            missing_key: None,
            autonomous: true,
            project: (0, 5),
            all: (0, 8),
            keeping: false,
        };
        let due = Some(Timestamp::UNIX_EPOCH);
        let missing = Some(MissingKey { vendor: Vendor::Openai, model: "gpt-5".to_owned() });
        let table = [
            (
                Situation { unmet_dependencies: 2, archived: true, ..free.clone() },
                Some(WaitingFor::Dependencies),
            ),
            (Situation { not_before: due, autonomous: false, ..free.clone() }, Some(WaitingFor::NotBefore)),
            (Situation { archived: true, has_repository: false, ..free.clone() }, Some(WaitingFor::Archived)),
            (Situation { paused: true, has_repository: false, ..free.clone() }, Some(WaitingFor::Paused)),
            (
                Situation { asks_capabilities: true, lane: Lane::Never, ..free.clone() },
                Some(WaitingFor::Capabilities),
            ),
            (
                Situation { has_repository: false, autonomous: false, ..free.clone() },
                Some(WaitingFor::NoRepository),
            ),
            (
                Situation { missing_key: missing.clone(), autonomous: false, ..free.clone() },
                Some(WaitingFor::ModelKey),
            ),
            (
                Situation { missing_key: missing, has_repository: false, ..free.clone() },
                Some(WaitingFor::NoRepository),
            ),
            (Situation { autonomous: false, ..free.clone() }, Some(WaitingFor::NotAutonomous)),
            (Situation { lane: Lane::Never, ..free.clone() }, Some(WaitingFor::NotAutonomous)),
            (Situation { lane: Lane::Always, autonomous: false, ..free.clone() }, None),
            (Situation { keeping: true, project: (5, 5), ..free.clone() }, Some(WaitingFor::Keeping)),
            (Situation { project: (5, 5), all: (8, 8), ..free.clone() }, Some(WaitingFor::ProjectLimit)),
            (Situation { all: (9, 8), ..free.clone() }, Some(WaitingFor::GlobalLimit)),
            (free, None),
        ];
        for (at, reason) in table {
            assert_eq!(waiting_for(&at).map(|waiting| waiting.reason), reason, "{at:?}");
        }
    }
}
