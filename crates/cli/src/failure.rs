//! How a failed command ends: its exit code, the cause and the next step.

use std::{fmt, io};

use omoi_server::{config, store, telemetry};

pub const FAILED: u8 = 1;
/// A setting that stops the start counts as wrong usage: a repeat would meet it again.
pub const USAGE: u8 = 2;
pub const NOT_FOUND: u8 = 3;
pub const REFUSED: u8 = 4;
pub const UNREACHABLE: u8 = 5;
/// As a shell says it of a program that Ctrl-C has ended.
pub const INTERRUPTED: u8 = 130;
/// As a shell says it of a program that SIGTERM has ended.
pub const TERMINATED: u8 = 143;

#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: u8,
    pub cause: String,
    pub hint: Option<String>,
}

impl Failure {
    /// `None` when whoever read our output has seen enough.
    pub fn of(error: &anyhow::Error) -> Option<Self> {
        let chain = || error.chain();
        let broken_pipe = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        if chain().any(|cause| cause.downcast_ref().is_some_and(broken_pipe)) {
            return None;
        }
        if let Some(stop) = chain().find_map(|cause| cause.downcast_ref::<Stop>()) {
            return Some(Self { code: stop.code, cause: stop.cause.clone(), hint: stop.hint.clone() });
        }
        if let Some(client) = chain().find_map(|cause| cause.downcast_ref::<omoi_client::Error>()) {
            let hint = client.hint().map(str::to_owned);
            return Some(Self { code: client_code(client), cause: format!("{error:#}"), hint });
        }
        let (code, hint) = if let Some(found) = chain().find_map(unreadable) {
            found
        } else if chain().any(is_setting) {
            (USAGE, Some("`omoi config default` says what every key means and takes"))
        } else {
            chain().find_map(server_code).unwrap_or((FAILED, None))
        };
        Some(Self { code, cause: told_once(error), hint: hint.map(str::to_owned) })
    }
}

/// A directory or file that cannot be read: its permissions are at fault, not a setting.
fn unreadable(cause: &(dyn std::error::Error + 'static)) -> Option<(u8, Option<&'static str>)> {
    match cause.downcast_ref()? {
        config::Error::DataDir { .. } => Some((
            FAILED,
            Some("run omoi as the user who owns the directory, or name another with --data-dir"),
        )),
        config::Error::Read { .. } => {
            Some((FAILED, Some("make the file readable for this user, or name another with --config")))
        }
        _ => None,
    }
}

/// A setting that was refused, wherever that came to light.
fn is_setting(cause: &(dyn std::error::Error + 'static)) -> bool {
    let store = match cause.downcast_ref() {
        Some(omoi_server::Error::Store(store)) => Some(store),
        _ => cause.downcast_ref::<store::Error>(),
    };
    cause.is::<config::Error>()
        || cause.is::<telemetry::Error>()
        || matches!(store, Some(store::Error::Invalid { code: "database_url", .. }))
}

fn client_code(error: &omoi_client::Error) -> u8 {
    use omoi_client::Error;
    match error {
        Error::Unreachable { .. } | Error::TimedOut { .. } => UNREACHABLE,
        Error::Address { .. } | Error::Token => USAGE,
        // What a proxy says when there is nobody behind it.
        Error::Stranger { status, .. } if matches!(status.as_u16(), 502..=504) => UNREACHABLE,
        Error::Problem(_) => match error.status() {
            Some(401 | 403) => REFUSED,
            Some(404) => NOT_FOUND,
            _ => FAILED,
        },
        Error::Stranger { .. }
        | Error::Setup { .. }
        | Error::Unreadable { .. }
        | Error::LineTooLong { .. } => FAILED,
    }
}

fn server_code(cause: &(dyn std::error::Error + 'static)) -> Option<(u8, Option<&'static str>)> {
    use omoi_server::Error;
    let store = match cause.downcast_ref::<Error>() {
        Some(Error::Listen { .. }) => {
            return Some((FAILED, Some("choose another address with --listen; port 0 takes a free one")));
        }
        Some(Error::DataDir { .. } | Error::Git(_)) => {
            return Some((FAILED, Some("choose another directory with --data-dir")));
        }
        Some(Error::Model(_)) => {
            return Some((
                FAILED,
                Some("install the package ca-certificates, and see the model keys in `omoi config show`"),
            ));
        }
        Some(Error::Scenario(_)) => {
            return Some((
                USAGE,
                Some("docs/testing.md says how a scenario is written; model.scenarios names the directory"),
            ));
        }
        Some(Error::Policy(_)) => {
            return Some((
                USAGE,
                Some("docs/supervision.md says how a policy is written; guardian.policy names the file"),
            ));
        }
        Some(Error::Store(store)) => store,
        None => cause.downcast_ref()?,
    };
    Some(match store {
        store::Error::NotFound { .. } => (NOT_FOUND, None),
        store::Error::Unavailable(_) | store::Error::Io(_) | store::Error::DiskFull(_) => {
            (FAILED, Some("`omoi doctor` says whether the database can be used"))
        }
        _ => (FAILED, None),
    })
}

/// The chain of causes, without those that the text before already repeats.
fn told_once(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match told {
        told if told.is_empty() => cause,
        told if told.contains(&cause) => told,
        told => format!("{told}: {cause}"),
    })
}

/// An end of which everything is said: by a command in a sandbox, whose code is passed on.
#[derive(Debug, PartialEq, Eq)]
pub struct Code(pub u8);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ended with code {}", self.0)
    }
}

impl std::error::Error for Code {}

/// An end that a command has decided on itself.
#[derive(Debug)]
pub struct Stop {
    code: u8,
    cause: String,
    hint: Option<String>,
}

impl Stop {
    pub fn new(code: u8, cause: impl Into<String>) -> Self {
        Self { code, cause: cause.into(), hint: None }
    }

    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)
    }
}

impl std::error::Error for Stop {}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;
    use omoi_client::Error;
    use omoi_protocol::problem::Problem;

    use super::*;

    fn problem(status: u16) -> Error {
        let (title, code, detail) = ("No".to_owned(), "no".to_owned(), "not like this".to_owned());
        Error::Problem(Box::new(Problem { status, title, code, detail, facts: serde_json::Map::new() }))
    }

    fn code(error: impl Into<anyhow::Error>) -> Option<u8> {
        Failure::of(&error.into().context("while asking")).map(|failure| failure.code)
    }

    #[test]
    fn exit_codes_tell_what_kind_of_failure_it_was() {
        let url = || "http://localhost:1".to_owned();
        let refused = Error::Unreachable { url: url(), reason: "connection refused".to_owned() };
        assert_eq!(code(refused), Some(UNREACHABLE));
        assert_eq!(code(Error::Address { url: url() }), Some(USAGE));
        for (status, expected) in
            [(401, REFUSED), (403, REFUSED), (404, NOT_FOUND), (409, FAILED), (503, FAILED)]
        {
            assert_eq!(code(problem(status)), Some(expected), "{status}");
        }
        let store = store::Error::NotFound { kind: "token", id: "tok-1".to_owned() };
        assert_eq!(code(store), Some(NOT_FOUND));
        assert_eq!(code(anyhow::anyhow!("anything else")), Some(FAILED));
        assert_eq!(code(Stop::new(REFUSED, "no")), Some(REFUSED));
        let no_such_file = config::load(&[], |_| None, Some("/nowhere/omoi.yaml".as_ref())).unwrap_err();
        assert_eq!(code(no_such_file), Some(FAILED));
        let flag = config::Flag { name: "--listen", key: "server.listen", value: "nowhere".to_owned() };
        assert_eq!(code(config::load(&[flag], |_| None, None).unwrap_err()), Some(USAGE));
        let address = || store::Error::Invalid { code: "database_url", detail: "no host".to_owned() };
        assert_eq!(code(address()), Some(USAGE));
        assert_eq!(code(omoi_server::Error::Store(address())), Some(USAGE));
        let collector = telemetry::Error::Otlp { endpoint: url(), source: "no such scheme".into() };
        assert_eq!(code(collector), Some(USAGE));
    }

    #[test]
    fn a_reader_that_has_gone_is_no_failure() {
        assert_eq!(code(io::Error::from(io::ErrorKind::BrokenPipe)), None);
    }

    #[test]
    fn causes_are_told_once_and_in_order() {
        let inner = anyhow::anyhow!("disk full");
        let error =
            Err::<(), _>(inner).context("cannot write x: disk full").context("no backup").unwrap_err();
        let failure = Failure::of(&error).unwrap();
        assert_eq!(failure.cause, "no backup: cannot write x: disk full");
        let failure = Failure::of(&problem(401).into()).unwrap();
        assert_eq!(failure.cause, "not like this");
        assert!(failure.hint.unwrap().contains("OMOI_TOKEN"));
    }
}
