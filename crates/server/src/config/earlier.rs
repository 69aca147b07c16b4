//! Settings of the earlier system: what its environment variables mean here.
//!
//! A variable that has an equivalent is among the variables of its key (`key.rs`); the ones whose values are written in
//! another way are translated here. A variable that has no effect is named here with what to use in its place, so that a
//! start and `omoi doctor` can warn about it. No warning shows a value, because some of these hold secrets.

use std::fmt;

use super::{Entry, Origin};

/// What a variable of the earlier system means here.
#[derive(Debug, Clone, Copy)]
pub(super) enum Meaning {
    /// It sets a key whose values are written in another way.
    Translated(Translation),
    /// It has no effect.
    Ignored { why: &'static str, instead: &'static str },
}

/// How the value of a variable becomes the value of its key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Translation {
    /// Finishes the sentence "… is not".
    pub accepts: &'static str,
    pub read: fn(&str) -> Option<String>,
}

/// A setting that is made and has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ineffective {
    /// The variable, or the key.
    pub name: &'static str,
    pub why: &'static str,
    pub instead: &'static str,
}

impl fmt::Display for Ineffective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, why, instead } = self;
        write!(f, "{name} has no effect: {why}; {instead}")
    }
}

const TRUTH: &str = "true or false";

const ROLE: Meaning = Meaning::Translated(Translation {
    accepts: TRUTH,
    read: |text| Some(if truth(text)? { "all" } else { "api" }.to_owned()),
});
const YES_OR_NO: Meaning =
    Meaning::Translated(Translation { accepts: TRUTH, read: |text| Some(truth(text)?.to_string()) });
const MINUTES: Meaning = Meaning::Translated(Translation {
    accepts: "a whole number of minutes",
    read: |text| Some(format!("{}m", text.parse::<u32>().ok()?)),
});

const fn ignored(why: &'static str, instead: &'static str) -> Meaning {
    Meaning::Ignored { why, instead }
}

const LOCAL: &str = "sandboxes are made on this machine, without a cloud provider";
const NO_QUEUE: &str = "events and messages are stored in the database, and Redis is not used";
const NO_STALE: &str = "a task returns to the queue when the lease of its sandbox ends";
const NO_SECTION: &str = "there is one configuration file for all environments";
const DOOR: &str = "the server gives each worker this address when it starts it";
const NO_MCP: &str = "workers use the HTTP API and no MCP server";
const NO_TOKEN: &str = "model calls are made with an API key";

const USE_NONE: &str = "remove the variable";
const USE_IMAGE: &str = "set OMOI_SANDBOX_IMAGE to an image of `omoi image list`";
const USE_URL: &str = "set OMOI_PUBLIC_URL to the address of this server";
const USE_LEASE: &str = "set OMOI_LEASE_DURATION";
const USE_KEY: &str = "set ANTHROPIC_API_KEY or OPENAI_API_KEY";
const USE_MODEL: &str = "set OMOI_WORKER_MODEL";
const USE_POOL: &str = "set OMOI_DATABASE_POOL_SIZE and OMOI_DATABASE_CONNECT_TIMEOUT";
const USE_CHECKS: &str = "declare checks in the project's settings, and retries with OMOI_RETRY_MAX_RETRIES";

/// Every variable of the earlier system's server that is not simply another name of a key.
const VARIABLES: &[(&str, Meaning)] = &[
    ("ORCHESTRATOR_ENABLED", ROLE),
    ("DAYTONA_SANDBOX_EXECUTION", YES_OR_NO),
    ("IDLE_DETECTION_ENABLED", YES_OR_NO),
    ("MONITORING_LLM_ANALYSIS_ENABLED", YES_OR_NO),
    ("IDLE_THRESHOLD_MINUTES", MINUTES),
    ("DAYTONA_API_KEY", ignored(LOCAL, USE_NONE)),
    ("DAYTONA_API_URL", ignored(LOCAL, USE_NONE)),
    ("DAYTONA_TARGET", ignored(LOCAL, USE_NONE)),
    ("DAYTONA_TIMEOUT", ignored(LOCAL, USE_NONE)),
    ("DAYTONA_IMAGE", ignored(LOCAL, USE_IMAGE)),
    ("DAYTONA_SNAPSHOT", ignored(LOCAL, USE_IMAGE)),
    ("REDIS_URL", ignored(NO_QUEUE, "set OMOI_DATABASE_URL to a PostgreSQL that several processes share")),
    ("MESSAGE_POLL_URL", ignored(DOOR, USE_URL)),
    ("MCP_SERVER_URL", ignored(NO_MCP, USE_URL)),
    ("INTEGRATIONS_MCP_SERVER_URL", ignored(NO_MCP, USE_URL)),
    (
        "SANDBOX_RUNTIME",
        ignored("the agent is chosen by project or task", "set `agent` in the project's settings"),
    ),
    ("STALE_TASK_CLEANUP_ENABLED", ignored(NO_STALE, USE_LEASE)),
    ("STALE_TASK_CHECK_INTERVAL_SECONDS", ignored(NO_STALE, USE_LEASE)),
    ("STALE_CLAIMING_THRESHOLD_SECONDS", ignored(NO_STALE, USE_LEASE)),
    ("STALE_TASK_THRESHOLD_MINUTES", ignored(NO_STALE, USE_LEASE)),
    ("TASK_VALIDATION_ENABLED", ignored("declared checks prove the work", USE_CHECKS)),
    ("MAX_VALIDATION_ITERATIONS", ignored("declared checks prove the work", USE_CHECKS)),
    (
        "MONITORING_ENABLED",
        ignored(
            "each part of monitoring has its own switch",
            "set OMOI_GUARDIAN_ENABLED, OMOI_CONDUCTOR_ENABLED and OMOI_MONITOR_ENABLED",
        ),
    ),
    ("MONITORING_ORCHESTRATOR_ENABLED", ignored("a role decides which loops run", "set OMOI_ROLE")),
    (
        "MONITORING_AUTO_STEERING_ENABLED",
        ignored("a policy decides what the Guardian does", "set OMOI_GUARDIAN_POLICY to a policy file"),
    ),
    ("LLM_API_KEY", ignored("each vendor has its own key", USE_KEY)),
    ("LLM_BASE_URL", ignored("each vendor has its own address", "set OPENAI_BASE_URL or ANTHROPIC_BASE_URL")),
    ("LLM_FIREWORKS_API_KEY", ignored("each vendor has its own key", USE_KEY)),
    ("LLM_MODEL", ignored("a worker has one model", USE_MODEL)),
    ("ANTHROPIC_AUTH_TOKEN", ignored(NO_TOKEN, USE_KEY)),
    ("CLAUDE_CODE_OAUTH_TOKEN", ignored(NO_TOKEN, USE_KEY)),
    ("ANTHROPIC_DEFAULT_MODEL", ignored("a worker has one model", USE_MODEL)),
    ("ANTHROPIC_DEFAULT_HAIKU_MODEL", ignored("a worker has one model", USE_MODEL)),
    ("ANTHROPIC_DEFAULT_SONNET_MODEL", ignored("a worker has one model", USE_MODEL)),
    ("ANTHROPIC_DEFAULT_OPUS_MODEL", ignored("a worker has one model", USE_MODEL)),
    ("INTEGRATIONS_ENABLE_MCP_TOOLS", ignored(NO_MCP, USE_NONE)),
    ("INTEGRATIONS_MCP_ENABLED", ignored(NO_MCP, USE_NONE)),
    (
        "DIAGNOSTIC_ENABLED",
        ignored("stuck tickets are diagnosed, and a person decides what follows", USE_NONE),
    ),
    (
        "APPROVAL_TICKET_HUMAN_REVIEW",
        ignored("the phases of a spec have gates", "set `spec.gates` in the project's settings"),
    ),
    ("DATABASE_MAX_OVERFLOW", ignored("the pool has a fixed size", USE_POOL)),
    ("DATABASE_POOL_TIMEOUT", ignored("the pool has a fixed size", USE_POOL)),
    ("OMOIOS_ENV", ignored(NO_SECTION, "set OMOI_CONFIG to the file to use")),
    (
        "WORKER_CONCURRENCY",
        ignored("sandboxes are limited in all and by project", "set OMOI_DISPATCH_MAX_LIVE"),
    ),
    ("WORKSPACE_ROOT", ignored("each sandbox has a work tree of its own", "set OMOI_DATA_DIR")),
    ("WORKSPACE_MODE", ignored(LOCAL, USE_NONE)),
];

/// How the value of this variable is read, if it is written in another way than its key's.
pub(super) fn translation(variable: &str) -> Option<Translation> {
    VARIABLES.iter().find_map(|(name, meaning)| match meaning {
        Meaning::Translated(translation) if *name == variable => Some(*translation),
        Meaning::Translated(_) | Meaning::Ignored { .. } => None,
    })
}

/// What is set and has no effect: variables of the earlier system, and keys that no provider here uses.
pub(super) fn ineffective(is_set: impl Fn(&str) -> bool, entries: &[Entry]) -> Vec<Ineffective> {
    let variables = VARIABLES.iter().filter_map(|(name, meaning)| match meaning {
        Meaning::Ignored { why, instead } if is_set(name) => Some(Ineffective { name, why, instead }),
        Meaning::Translated(_) | Meaning::Ignored { .. } => None,
    });
    let snapshot = entries.iter().find(|entry| entry.key == "sandbox.snapshot" && !entry.value.is_empty());
    let snapshot = snapshot.map(|entry| Ineffective {
        name: match entry.origin {
            Origin::Env(name) | Origin::Flag(name) => name,
            Origin::Default | Origin::File(_) => entry.key,
        },
        why: "the local provider has no snapshots",
        instead: USE_IMAGE,
    });
    variables.chain(snapshot).collect()
}

/// As the earlier system read it.
fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{super::KEYS, *};

    #[test]
    fn a_variable_sets_a_key_or_is_ignored_and_never_both() {
        let keyed: BTreeSet<_> = KEYS.iter().flat_map(|key| key.env).copied().collect();
        let mut seen = BTreeSet::new();
        for (name, meaning) in VARIABLES {
            assert!(seen.insert(name), "{name} is listed twice");
            match meaning {
                Meaning::Translated(_) => assert!(keyed.contains(name), "no key reads {name}"),
                Meaning::Ignored { instead, .. } => {
                    assert!(!keyed.contains(name), "{name} sets a key");
                    let named = instead.split([' ', ',']).filter(|word| word.starts_with("OMOI_"));
                    for word in named.filter(|word| *word != "OMOI_CONFIG") {
                        assert!(keyed.contains(word), "{name} names {word}, which no key reads");
                    }
                }
            }
        }
    }
}
