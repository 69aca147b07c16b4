//! The environment of what a worker runs: how a launch is put into it, and what may be added.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{LaunchSpec, net};

/// The longest value of an environment variable. A longer one is left out, and the worker asks for it through the door.
pub const ENV_VALUE_BYTES_MAX: usize = 127 * 1024;
/// What Linux takes for one variable, with its name, the equals sign and the closing zero.
const ENV_STRING_BYTES_MAX: usize = 128 * 1024;
/// All variables together. Linux gives arguments and environment a quarter of the stack, which is 2 MiB by default.
const ENV_BYTES_MAX: usize = 1024 * 1024;
/// Names the variables that were left out.
const LEFT_OUT: &str = "OMOI_ENV_LEFT_OUT";

/// Environment variables that a project adds, none of them a secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct PlainEnv(BTreeMap<String, String>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    #[error("{0:?} is not the name of an environment variable")]
    Name(String),
    #[error("the value of {0} holds a zero byte or is longer than {ENV_VALUE_BYTES_MAX} bytes")]
    Value(String),
    #[error("{0} carries a secret, and secrets do not enter a sandbox")]
    Secret(String),
}

impl TryFrom<BTreeMap<String, String>> for PlainEnv {
    type Error = EnvError;

    fn try_from(env: BTreeMap<String, String>) -> Result<Self, EnvError> {
        for (name, value) in &env {
            if !is_env_name(name) {
                return Err(EnvError::Name(name.clone()));
            }
            if value.contains('\0') || value.len() > ENV_VALUE_BYTES_MAX {
                return Err(EnvError::Value(name.clone()));
            }
            if is_secret_name(name) {
                return Err(EnvError::Secret(name.clone()));
            }
        }
        Ok(Self(env))
    }
}

impl From<PlainEnv> for BTreeMap<String, String> {
    fn from(env: PlainEnv) -> Self {
        env.0
    }
}

pub(super) type Vars = Vec<(&'static str, String)>;

impl LaunchSpec {
    /// The environment of what the worker runs. Names and meanings are those of the earlier system; what is new starts
    /// with `OMOI_`. What the launch itself says wins over `env`. A variable that the kernel would refuse is left out, and
    /// `OMOI_ENV_LEFT_OUT` names it.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let (mut vars, left_out) = fitting(self.all_vars());
        if !left_out.is_empty() {
            vars.insert(LEFT_OUT.to_owned(), left_out.join(","));
        }
        vars
    }

    /// The variables that are left out of the environment: too long, or with a zero byte.
    pub fn environment_left_out(&self) -> Vec<String> {
        fitting(self.all_vars()).1
    }

    fn all_vars(&self) -> BTreeMap<String, String> {
        let groups = [
            self.identity_vars(),
            self.work_vars(),
            self.limit_vars(),
            self.repository_vars(),
            self.context_vars(),
            self.spec_vars(),
        ];
        let own = groups.into_iter().flatten().map(|(name, value)| (name.to_owned(), value));
        self.env.0.clone().into_iter().chain(own).chain(net::vars(self)).collect()
    }

    /// What a check finds: the project's own variables and a way out, and nothing that could speak for the sandbox.
    pub fn check_environment(&self) -> BTreeMap<String, String> {
        let workspace = [("CI", "true"), ("WORKSPACE_PATH", self.workspace_path.as_str())];
        let own = workspace.map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.env.0.clone().into_iter().chain(own).chain(net::plain_vars(self)).collect()
    }

    fn identity_vars(&self) -> Vars {
        let mut vars = vec![
            ("SANDBOX_ID", self.sandbox_id.to_string()),
            ("CALLBACK_URL", self.door.url.clone()),
            ("OMOIOS_API_URL", self.door.url.clone()),
            ("OMOI_TOKEN", self.token.expose().to_owned()),
            // Where an earlier worker looks for it.
            ("OMOIOS_API_KEY", self.token.expose().to_owned()),
            // Lets agents that refuse to run as root without it do so.
            ("IS_SANDBOX", "1".to_owned()),
            ("MESSAGE_POLL_URL", format!("{}/api/v1/sandboxes/{}/messages", self.door.url, self.sandbox_id)),
        ];
        for name in ["PROJECT_ID", "OMOIOS_PROJECT_ID"] {
            vars.extend(self.project_id.as_ref().map(|id| (name, id.to_string())));
        }
        vars.extend(self.task_id.as_ref().map(|id| ("TASK_ID", id.to_string())));
        vars
    }

    fn work_vars(&self) -> Vars {
        let agent_type = self.agent.agent_type.as_deref().unwrap_or(self.mode.agent_type());
        let mut vars = vec![
            ("EXECUTION_MODE", self.mode.as_str().to_owned()),
            ("AGENT_TYPE", agent_type.to_owned()),
            ("OMOI_AGENT", self.agent.kind.as_str().to_owned()),
        ];
        for name in ["MODEL", "ANTHROPIC_MODEL", "LLM_MODEL"] {
            vars.extend(self.agent.model.clone().map(|model| (name, model)));
        }
        if let Some(resume) = &self.resume {
            vars.push(("RESUME_SESSION_ID", resume.session_id.clone()));
            vars.extend(resume.transcript_b64.clone().map(|text| ("SESSION_TRANSCRIPT_B64", text)));
        }
        vars
    }

    fn limit_vars(&self) -> Vars {
        let (limits, gates) = (&self.limits, self.gates());
        vec![
            ("CONTINUOUS_MODE", self.is_continuous().to_string()),
            ("MAX_TURNS", limits.max_turns.to_string()),
            ("MAX_BUDGET_USD", limits.max_budget_usd.to_string()),
            ("MAX_ITERATIONS", limits.max_iterations.to_string()),
            ("MAX_TOTAL_COST_USD", limits.max_total_cost_usd.to_string()),
            ("MAX_DURATION_SECONDS", limits.max_duration_seconds.to_string()),
            ("OMOI_WALL_CLOCK_SECONDS", limits.wall_clock_seconds.to_string()),
            ("REQUIRE_CLEAN_GIT", gates.clean_git.to_string()),
            ("REQUIRE_CODE_PUSHED", gates.code_pushed.to_string()),
            ("REQUIRE_PR_CREATED", gates.pr_created.to_string()),
            ("REQUIRE_TESTS", gates.tests.to_string()),
        ]
    }

    fn repository_vars(&self) -> Vars {
        let mut vars =
            vec![("WORKSPACE_PATH", self.workspace_path.clone()), ("CWD", self.workspace_path.clone())];
        let Some(repository) = &self.repository else { return vars };
        vars.push(("OMOI_REPOSITORY_URL", repository.url.clone()));
        vars.push(("OMOI_BASE_COMMIT", repository.base_commit.clone()));
        vars.push(("BRANCH_NAME", repository.branch_name.clone()));
        if let Some((owner, name)) = repository.full_name.as_deref().and_then(|full| full.split_once('/')) {
            vars.push(("GITHUB_REPO", format!("{owner}/{name}")));
            vars.push(("GITHUB_REPO_OWNER", owner.to_owned()));
            vars.push(("GITHUB_REPO_NAME", name.to_owned()));
        }
        vars
    }

    fn context_vars(&self) -> Vars {
        let Some(context) = &self.context else { return Vec::new() };
        let mut vars: Vars = context.task.phase_id.iter().map(|id| ("PHASE_ID", id.clone())).collect();
        vars.push(("TASK_DESCRIPTION", context.task.description.clone()));
        if let Some(ticket) = &context.ticket {
            vars.push(("TICKET_ID", ticket.id.to_string()));
            vars.push(("TICKET_TYPE", ticket.ticket_type.to_string()));
            vars.push(("TICKET_PRIORITY", ticket.priority.to_string()));
            vars.push(("TICKET_TITLE", ticket.title.clone()));
            vars.push(("TICKET_DESCRIPTION", ticket.description.clone()));
        }
        vars.push(("TASK_DATA_BASE64", encoded_json(context)));
        vars
    }

    fn spec_vars(&self) -> Vars {
        let mut vars = vec![("REQUIRE_SPEC_SKILL", self.spec.is_some().to_string())];
        if let Some(spec) = &self.spec {
            vars.push(("SPEC_ID", spec.spec_id.to_string()));
            vars.push(("SPEC_PHASE", spec.phase.to_string()));
            vars.push(("REPORTER_MODE", "http".to_owned()));
            vars.push(("SPEC_TITLE", spec.title.clone()));
            vars.push(("SPEC_DESCRIPTION", spec.description.clone()));
            vars.push(("PHASE_CONTEXT_B64", encoded_json(&spec.phase_context)));
        }
        vars
    }
}

fn is_env_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// By its name, since a value does not say what it is.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let endings =
        ["TOKEN", "SECRET", "PASSWORD", "CREDENTIALS", "API_KEY", "SECRET_KEY", "ACCESS_KEY", "PRIVATE_KEY"];
    ["DATABASE_URL", "REDIS_URL"].contains(&name.as_str())
        || endings.iter().any(|ending| name.ends_with(ending))
}

/// What the kernel takes of these variables, and the names of the rest. Where all together are too much, the longest go
/// first: identity, token and limits are short, texts of people are long.
pub fn fitting(mut vars: BTreeMap<String, String>) -> (BTreeMap<String, String>, Vec<String>) {
    let mut left_out: Vec<String> =
        vars.extract_if(.., |name, value| !fits(name, value)).map(|(name, _)| name).collect();
    let mut bytes: usize = vars.iter().map(|(name, value)| string_bytes(name, value)).sum();
    while bytes > ENV_BYTES_MAX {
        let longest = vars.iter().max_by_key(|(name, value)| string_bytes(name, value));
        let Some(name) = longest.map(|(name, _)| name.clone()) else { break };
        bytes -= vars.remove(&name).map_or(0, |value| string_bytes(&name, &value));
        left_out.push(name);
    }
    (vars, left_out)
}

fn fits(name: &str, value: &str) -> bool {
    value.len() <= ENV_VALUE_BYTES_MAX
        && string_bytes(name, value) <= ENV_STRING_BYTES_MAX
        && !value.contains('\0')
}

/// With the equals sign and the closing zero.
fn string_bytes(name: &str, value: &str) -> usize {
    name.len() + value.len() + 2
}

fn encoded_json(value: &impl Serialize) -> String {
    base64(&serde_json::to_vec(value).expect("a context has only text keys"))
}

/// RFC 4648 with padding; written out here so that the words of the protocol need no crate for it.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            u32::from_be_bytes([0, chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)]);
        for place in 0..4 {
            let digit = DIGITS[(group >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_agrees_with_its_rfc() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, encoded) in vectors {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xbf]), "+/+/");
    }
}
