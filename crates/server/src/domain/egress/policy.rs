//! A project's policy: from its settings and the administrator's configuration, whether a host and port are allowed.

use serde_json::{Map, Value};

use super::{Pattern, PatternError, Target};

/// How many lines a project's list has at most.
const PATTERNS_MAX: usize = 500;

/// What of the network a project's sandboxes get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    None,
    /// The hosts on the list.
    #[default]
    AllowList,
    /// Every public host, where the administrator allows that.
    Open,
}

/// What a project's settings say about the network: `network` and `egress_allow`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    pub mode: Mode,
    /// Without one, the configured default.
    pub allow: Option<Vec<Pattern>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("settings.network is {0}; it must be \"none\", \"allow_list\" or \"open\"")]
    Mode(Value),
    #[error("settings.egress_allow is no list of texts; write it as [\"crates.io\", \"*.example.com\"]")]
    NotAList,
    #[error("settings.egress_allow has {0} entries; {PATTERNS_MAX} are allowed")]
    TooMany(usize),
    #[error("settings.egress_allow: {0}")]
    Pattern(#[from] PatternError),
}

impl Settings {
    pub fn parse(settings: &Map<String, Value>) -> Result<Self, SettingsError> {
        let mode = match settings.get("network") {
            None | Some(Value::Null) => Mode::default(),
            Some(word) => match word.as_str() {
                Some("none") => Mode::None,
                Some("allow_list") => Mode::AllowList,
                Some("open") => Mode::Open,
                _ => return Err(SettingsError::Mode(word.clone())),
            },
        };
        let allow = match settings.get("egress_allow") {
            None | Some(Value::Null) => None,
            Some(Value::Array(lines)) if lines.len() > PATTERNS_MAX => {
                return Err(SettingsError::TooMany(lines.len()));
            }
            Some(Value::Array(lines)) => Some(lines.iter().map(pattern).collect::<Result<_, _>>()?),
            Some(_) => return Err(SettingsError::NotAList),
        };
        Ok(Self { mode, allow })
    }
}

fn pattern(line: &Value) -> Result<Pattern, SettingsError> {
    let text = line.as_str().ok_or(SettingsError::NotAList)?;
    Ok(text.parse()?)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    mode: Mode,
    open_allowed: bool,
    allow: Vec<Pattern>,
    /// For hosts that are allowed without naming a port.
    ports: Vec<u16>,
}

/// Why a host and port are not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// The project has no network.
    NoNetwork,
    NotListed,
    /// The host is allowed, this port of it is not.
    Port,
    /// The project asks for an open network, and the administrator allows none.
    OpenNotAllowed,
}

impl Policy {
    pub fn new(settings: Settings, default_allow: &[Pattern], ports: &[u16], open_allowed: bool) -> Self {
        let allow = settings.allow.unwrap_or_else(|| default_allow.to_vec());
        Self { mode: settings.mode, open_allowed, allow, ports: ports.to_vec() }
    }

    pub fn check(&self, target: &Target) -> Result<(), Denied> {
        let listed = || self.allow.iter().any(|pattern| pattern.matches(target, &self.ports));
        let unlisted = || match self.allow.iter().any(|pattern| pattern.covers(&target.host)) {
            true => Denied::Port,
            false => Denied::NotListed,
        };
        match self.mode {
            Mode::None => Err(Denied::NoNetwork),
            Mode::AllowList if listed() => Ok(()),
            Mode::AllowList => Err(unlisted()),
            Mode::Open if listed() => Ok(()),
            Mode::Open if !self.open_allowed => Err(Denied::OpenNotAllowed),
            Mode::Open if self.ports.contains(&target.port) => Ok(()),
            Mode::Open => Err(Denied::Port),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(value: Value) -> Result<Settings, SettingsError> {
        Settings::parse(value.as_object().unwrap())
    }

    #[test]
    fn what_is_allowed_follows_from_mode_list_and_port() {
        let listed = json!(["crates.io", "git.example:22"]);
        for (mode, open_allowed, target, expected) in [
            ("allow_list", false, "crates.io:443", Ok(())),
            ("allow_list", false, "crates.io:8080", Err(Denied::Port)),
            ("allow_list", false, "git.example:22", Ok(())),
            ("allow_list", false, "git.example:443", Err(Denied::Port)),
            ("allow_list", true, "evil.example:443", Err(Denied::NotListed)),
            ("none", true, "crates.io:443", Err(Denied::NoNetwork)),
            ("open", true, "evil.example:443", Ok(())),
            ("open", true, "evil.example:25", Err(Denied::Port)),
            ("open", true, "git.example:22", Ok(())),
            ("open", false, "evil.example:443", Err(Denied::OpenNotAllowed)),
            ("open", false, "crates.io:443", Ok(())),
        ] {
            let settings = settings(json!({ "network": mode, "egress_allow": listed })).unwrap();
            let policy = Policy::new(settings, &[], &[80, 443], open_allowed);
            let target_ = Target::parse(target, None).unwrap();
            assert_eq!(policy.check(&target_), expected, "{mode} {target}");
        }
    }

    #[test]
    fn a_project_without_a_list_has_the_default_one() {
        let default = ["crates.io".parse().unwrap()];
        let check = |value: Value| {
            let policy = Policy::new(settings(value).unwrap(), &default, &[443], false);
            policy.check(&Target::parse("crates.io:443", None).unwrap())
        };
        assert_eq!(check(json!({})), Ok(()));
        assert_eq!(check(json!({ "network": null, "egress_allow": null })), Ok(()));
        assert_eq!(check(json!({ "egress_allow": [] })), Err(Denied::NotListed));
        assert_eq!(check(json!({ "egress_allow": ["other.example"] })), Err(Denied::NotListed));
    }

    #[test]
    fn settings_that_cannot_be_read_are_refused_by_name() {
        let many: Vec<_> = (0..=PATTERNS_MAX).map(|n| format!("h{n}.example")).collect();
        for (value, text) in [
            (json!({ "network": "closed" }), r#"settings.network is "closed"; it must be"#),
            (json!({ "network": true }), "settings.network is true"),
            (json!({ "egress_allow": "crates.io" }), "settings.egress_allow is no list"),
            (json!({ "egress_allow": [7] }), "settings.egress_allow is no list"),
            (json!({ "egress_allow": many }), "settings.egress_allow has 501 entries; 500 are allowed"),
            (json!({ "egress_allow": ["https://crates.io"] }), r#""https://crates.io" is a URL"#),
            (json!({ "egress_allow": ["*"] }), r#""*" is too wide"#),
            (json!({ "egress_allow": ["127.1"] }), r#""127.1" is an address in an unusual notation"#),
        ] {
            let error = settings(value).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
