//! Which agent works on a task and in which mode: the configured defaults, then what the project's `settings` say, then
//! the task's `execution_config`. In both, `agent` is an object and `model` a short way to its model.

use std::collections::BTreeMap;

use omoi_protocol::{
    launch::{AgentKind, AgentLaunch, ExecutionMode, McpServer, PermissionMode, PlainEnv, Wire},
    sandbox::SESSION_ID_CHARS_MAX,
};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

const NAME_CHARS_MAX: usize = 200;
const TOOLS_MAX: usize = 500;
const INSTRUCTIONS_CHARS_MAX: usize = 100_000;
const SERVERS_MAX: usize = 32;
const ARGUMENTS_MAX: usize = 100;
const ARGUMENT_CHARS_MAX: usize = 10_000;
const CONTEXT_TOKENS: std::ops::RangeInclusive<u64> = 1_000..=100_000_000;
const ANSWER_TOKENS_MAX: u32 = 1_000_000;

/// Task types that read and write up; those of the earlier system, and whatever begins like them.
const EXPLORING: &[&str] = &[
    "explor",
    "analyze",
    "analyse",
    "create_spec",
    "create_requirements",
    "create_design",
    "create_tickets",
];
const EXPLORING_WORDS: &[&str] =
    &["create_tasks", "define_feature", "generate_prd", "research", "discover", "investigate"];
const VALIDATING: &[&str] = &["validat", "review_code", "run_tests"];

/// What settings may say of the agent; whatever is absent or null stays as it was.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wanted {
    kind: Option<AgentKind>,
    model: Option<String>,
    wire: Option<Wire>,
    agent_type: Option<String>,
    permission_mode: Option<PermissionMode>,
    allowed_tools: Option<Vec<String>>,
    disallowed_tools: Option<Vec<String>>,
    instructions: Option<String>,
    mcp_servers: Option<BTreeMap<String, McpServer>>,
    context_tokens: Option<u64>,
    answer_tokens: Option<u32>,
}

/// The agent of a task. Settings that cannot be read were refused when they were set, and count for nothing here.
pub fn agent(default_model: &str, project: &Map<String, Json>, task: &Map<String, Json>) -> AgentLaunch {
    let mut agent = AgentLaunch { model: Some(default_model.to_owned()), ..AgentLaunch::default() };
    for settings in [project, task] {
        for (_, wanted) in fields(settings) {
            if let Ok(wanted) = wanted {
                wanted.apply(&mut agent);
            }
        }
    }
    agent
}

/// What the task says, else what its type and phase tell.
pub fn mode(task_type: &str, phase_id: &str, config: &Map<String, Json>) -> ExecutionMode {
    if let Some(Ok(mode)) = asked(config, "mode").map(parse_mode) {
        return mode;
    }
    let kind = task_type.to_ascii_lowercase();
    let begins = |words: &[&str]| words.iter().any(|word| kind.starts_with(word));
    match phase_id {
        _ if begins(EXPLORING) || EXPLORING_WORDS.contains(&kind.as_str()) => ExecutionMode::Exploration,
        _ if begins(VALIDATING) => ExecutionMode::Validation,
        "PHASE_REQUIREMENTS" | "PHASE_DESIGN" => ExecutionMode::Exploration,
        "PHASE_TESTING" | "PHASE_VALIDATION" => ExecutionMode::Validation,
        _ => ExecutionMode::Implementation,
    }
}

/// Whether the agent is to work in iterations, where somebody says: the task, else its project.
pub fn continuous(project: &Map<String, Json>, task: &Map<String, Json>) -> Option<bool> {
    [task, project].into_iter().find_map(|settings| settings.get("continuous")?.as_bool())
}

/// The session that a task goes on with.
pub fn resumes(config: &Map<String, Json>) -> Option<&str> {
    asked(config, "resume_session_id")?.as_str()
}

/// What is wrong with the agent in a project's or task's settings, naming the field.
pub fn check(of: &str, settings: &Map<String, Json>) -> Result<(), String> {
    if asked(settings, "agent").is_some_and(|agent| !agent.is_object()) {
        return Err(format!("{of}.agent must be an object such as {{\"model\": \"claude-sonnet-4-5\"}}"));
    }
    if asked(settings, "continuous").is_some_and(|continuous| !continuous.is_boolean()) {
        return Err(format!("{of}.continuous is {}; it must be true or false", settings["continuous"]));
    }
    for (name, wanted) in fields(settings) {
        wanted.and_then(|wanted| wanted.check()).map_err(|why| format!("{of}.{name}: {why}"))?;
    }
    Ok(())
}

/// What is wrong with what only a task says.
pub fn check_task(config: &Map<String, Json>) -> Result<(), String> {
    if let Some(mode) = asked(config, "mode") {
        parse_mode(mode).map_err(|why| format!("execution_config.mode: {why}"))?;
    }
    match asked(config, "resume_session_id") {
        None => Ok(()),
        Some(Json::String(id)) if (1..=SESSION_ID_CHARS_MAX).contains(&id.chars().count()) => Ok(()),
        Some(_) => Err(format!(
            "execution_config.resume_session_id must be a text of 1 to {SESSION_ID_CHARS_MAX} characters"
        )),
    }
}

/// Each field by itself, so that one that is wrong can be named; the short ways come first and give way.
fn fields(settings: &Map<String, Json>) -> Vec<(String, Result<Wanted, String>)> {
    let one = |key: &str, value: &Json| -> Result<Wanted, String> {
        let alone = Json::Object(Map::from_iter([(key.to_owned(), value.clone())]));
        serde_json::from_value(alone).map_err(|error| error.to_string())
    };
    let short = asked(settings, "model").map(|model| ("model".to_owned(), one("model", model)));
    let whole = asked(settings, "agent").and_then(Json::as_object);
    let whole = whole.into_iter().flatten().map(|(key, value)| (format!("agent.{key}"), one(key, value)));
    short.into_iter().chain(whole).collect()
}

fn asked<'a>(settings: &'a Map<String, Json>, key: &str) -> Option<&'a Json> {
    settings.get(key).filter(|value| !value.is_null())
}

fn parse_mode(value: &Json) -> Result<ExecutionMode, String> {
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}

impl Wanted {
    fn apply(self, agent: &mut AgentLaunch) {
        fn set<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        set(&mut agent.kind, self.kind);
        set(&mut agent.model, self.model.map(Some));
        set(&mut agent.wire, self.wire.map(Some));
        set(&mut agent.agent_type, self.agent_type.map(Some));
        set(&mut agent.permission_mode, self.permission_mode);
        set(&mut agent.allowed_tools, self.allowed_tools.map(Some));
        set(&mut agent.disallowed_tools, self.disallowed_tools);
        set(&mut agent.instructions, self.instructions.map(Some));
        set(&mut agent.mcp_servers, self.mcp_servers);
        set(&mut agent.context_tokens, self.context_tokens);
        set(&mut agent.answer_tokens, self.answer_tokens);
    }

    fn check(&self) -> Result<(), String> {
        for name in [&self.model, &self.agent_type].into_iter().flatten() {
            word(name, NAME_CHARS_MAX)?;
        }
        for tools in [&self.allowed_tools, &self.disallowed_tools].into_iter().flatten() {
            at_most(tools.len(), TOOLS_MAX, "entries")?;
            tools.iter().try_for_each(|tool| word(tool, NAME_CHARS_MAX))?;
        }
        if let Some(text) = &self.instructions {
            at_most(text.chars().count(), INSTRUCTIONS_CHARS_MAX, "characters")?;
        }
        if let Some(servers) = &self.mcp_servers {
            at_most(servers.len(), SERVERS_MAX, "servers")?;
            servers.iter().try_for_each(|(name, server)| {
                check_server(name, server).map_err(|why| format!("{name}: {why}"))
            })?;
        }
        if self.context_tokens.is_some_and(|tokens| !CONTEXT_TOKENS.contains(&tokens)) {
            return Err(format!("must be from {} to {}", CONTEXT_TOKENS.start(), CONTEXT_TOKENS.end()));
        }
        if self.answer_tokens.is_some_and(|tokens| !(1..=ANSWER_TOKENS_MAX).contains(&tokens)) {
            return Err(format!("must be from 1 to {ANSWER_TOKENS_MAX}"));
        }
        Ok(())
    }
}

fn check_server(name: &str, server: &McpServer) -> Result<(), String> {
    word(name, NAME_CHARS_MAX)?;
    match (&server.command, &server.url) {
        (Some(command), None) => word(command, ARGUMENT_CHARS_MAX)?,
        (None, Some(url)) if url.starts_with("http://") || url.starts_with("https://") => {
            at_most(url.chars().count(), ARGUMENT_CHARS_MAX, "characters")?;
        }
        _ => return Err("needs a command, or a url that begins with http:// or https://".to_owned()),
    }
    at_most(server.args.len(), ARGUMENTS_MAX, "args")?;
    for argument in &server.args {
        at_most(argument.chars().count(), ARGUMENT_CHARS_MAX, "characters")?;
    }
    PlainEnv::try_from(server.env.clone()).map(|_| ()).map_err(|error| format!("env: {error}"))
}

fn word(text: &str, chars_max: usize) -> Result<(), String> {
    at_most(text.chars().count(), chars_max, "characters")?;
    match text.trim().is_empty() || text.chars().any(char::is_control) {
        true => Err(format!("{text:?} is empty or holds control characters")),
        false => Ok(()),
    }
}

fn at_most(count: usize, max: usize, what: &str) -> Result<(), String> {
    if count > max { Err(format!("has {count} {what}; {max} are allowed")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Json) -> Map<String, Json> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn the_task_wins_over_the_project_and_both_over_the_default() {
        for (project, task, model) in [
            (json!({}), json!({}), "default"),
            (json!({ "model": "p" }), json!({}), "p"),
            (json!({ "model": "p", "agent": { "model": "q" } }), json!({}), "q"),
            (json!({ "agent": { "model": "p" } }), json!({ "model": "t" }), "t"),
            (json!({ "agent": { "model": "p" } }), json!({ "model": null, "agent": { "model": null } }), "p"),
            (json!({ "agent": { "model": "p" } }), json!({ "agent": { "answer_tokens": 7 } }), "p"),
        ] {
            let agent = agent("default", &map(project.clone()), &map(task.clone()));
            assert_eq!(agent.model.as_deref(), Some(model), "{project} {task}");
        }
        let project = map(json!({ "agent": { "instructions": "be brief", "disallowed_tools": ["Bash"] } }));
        let task = map(json!({ "agent": { "permission_mode": "plan", "disallowed_tools": [] } }));
        let agent = agent("m", &project, &task);
        assert_eq!(agent.instructions.as_deref(), Some("be brief"));
        assert_eq!((agent.permission_mode, agent.disallowed_tools), (PermissionMode::Plan, Vec::new()));
    }

    #[test]
    fn only_who_is_asked_to_works_in_iterations_and_the_task_is_heard_first() {
        for (project, task, expected) in [
            (json!({}), json!({}), None),
            (json!({ "continuous": true }), json!({}), Some(true)),
            (json!({ "continuous": true }), json!({ "continuous": null }), Some(true)),
            (json!({ "continuous": true }), json!({ "continuous": false }), Some(false)),
            (json!({}), json!({ "continuous": true }), Some(true)),
        ] {
            assert_eq!(continuous(&map(project.clone()), &map(task.clone())), expected, "{project} {task}");
        }
    }

    #[test]
    fn the_mode_is_what_the_task_says_or_what_its_type_and_phase_tell() {
        use ExecutionMode::{Exploration, Implementation, Validation};
        for (kind, phase, config, expected) in [
            ("implementation", "PHASE_IMPLEMENTATION", json!({}), Implementation),
            ("explore_codebase", "PHASE_IMPLEMENTATION", json!({}), Exploration),
            ("exploration", "PHASE_IMPLEMENTATION", json!({}), Exploration),
            ("generate_prd", "PHASE_IMPLEMENTATION", json!({}), Exploration),
            ("validate_implementation", "PHASE_IMPLEMENTATION", json!({}), Validation),
            ("implementation", "PHASE_DESIGN", json!({}), Exploration),
            ("implementation", "PHASE_TESTING", json!({}), Validation),
            ("validation", "PHASE_DESIGN", json!({ "mode": "implementation" }), Implementation),
        ] {
            assert_eq!(mode(kind, phase, &map(config)), expected, "{kind} {phase}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_its_name() {
        for (settings, named) in [
            (json!({ "agent": { "model": "scripted/binomial", "kind": "builtin" } }), None),
            (json!({ "agent": null, "model": null }), None),
            (json!({ "agent": [] }), Some("settings.agent")),
            (json!({ "continuous": "yes" }), Some("settings.continuous")),
            (json!({ "model": 7 }), Some("settings.model")),
            (json!({ "model": " " }), Some("settings.model")),
            (json!({ "agent": { "modle": "x" } }), Some("settings.agent.modle")),
            (json!({ "agent": { "kind": "wizard" } }), Some("settings.agent.kind")),
            (json!({ "agent": { "answer_tokens": 0 } }), Some("settings.agent.answer_tokens")),
            (json!({ "agent": { "context_tokens": -1 } }), Some("settings.agent.context_tokens")),
            (json!({ "agent": { "allowed_tools": ["Read", ""] } }), Some("settings.agent.allowed_tools")),
            (json!({ "agent": { "mcp_servers": { "x": {} } } }), Some("settings.agent.mcp_servers: x")),
            (
                json!({ "agent": { "mcp_servers": { "x": { "command": "a", "env": { "MY_TOKEN": "s" } } } } }),
                Some("settings.agent.mcp_servers: x: env: MY_TOKEN"),
            ),
        ] {
            let refused = check("settings", &map(settings.clone())).err();
            match named {
                None => assert_eq!(refused, None, "{settings}"),
                Some(name) => {
                    assert!(refused.as_ref().is_some_and(|why| why.starts_with(name)), "{refused:?}");
                }
            }
        }
        for (config, fine) in [
            (json!({ "mode": "validation", "resume_session_id": "s-1" }), true),
            (json!({ "mode": "dance" }), false),
            (json!({ "resume_session_id": "" }), false),
            (json!({ "resume_session_id": 1 }), false),
        ] {
            assert_eq!(check_task(&map(config.clone())).is_ok(), fine, "{config}");
        }
    }
}
