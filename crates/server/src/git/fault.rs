//! Why a repository could not be fetched, in words of our own. What the far server said is not repeated: it may be a page
//! of HTML, or the answer of a service that was never meant to be read from outside.

use super::command::Failure;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the host's key is not known: add it to known_hosts of the user that runs Omoi")]
    HostKey,
    #[error("access is denied: give the user that runs Omoi a key of SSH, or the right to read it")]
    Denied,
    #[error("it needs a login: set git.token, and its host in git.token_hosts")]
    LoginNeeded,
    #[error("the token is not accepted: check git.token")]
    LoginRefused,
    #[error("the token may not read it (HTTP 403): check what git.token may do")]
    Forbidden,
    #[error(
        "the server redirects to another address, which is not followed: set the project's repository_url to where the \
         repository is now (GitLab wants .git at the end)"
    )]
    Moved,
    #[error("its host is not known: check the project's repository_url and the network")]
    UnknownHost,
    #[error("no repository is there: check the project's repository_url, and that Omoi may read it")]
    NotThere,
    #[error("its host cannot be reached: check the project's repository_url and the network")]
    Unreachable,
    #[error("its TLS certificate is not trusted: check the host, and the certificates of this machine")]
    Certificate,
    #[error("its server answered with an error (HTTP 5xx): try again later")]
    ServerError,
    #[error("it took longer than git.timeout: try again, or raise git.timeout")]
    TooSlow,
    #[error(
        "it holds an object that could harm ({0}), which Git refuses: remove the object from its history"
    )]
    Harmful(String),
    #[error("git failed: its messages are in the server's log")]
    Other,
}

const KNOWN: &[(&str, Fault)] = &[
    ("host key verification failed", Fault::HostKey),
    ("permission denied", Fault::Denied),
    ("could not read username", Fault::LoginNeeded),
    ("authentication failed", Fault::LoginRefused),
    ("returned error: 401", Fault::LoginNeeded),
    ("returned error: 403", Fault::Forbidden),
    ("returned error: 30", Fault::Moved),
    ("returned error: 5", Fault::ServerError),
    ("could not resolve host", Fault::UnknownHost),
    ("name or service not known", Fault::UnknownHost),
    ("certificate", Fault::Certificate),
    ("connection refused", Fault::Unreachable),
    ("couldn't connect", Fault::Unreachable),
    ("failed to connect", Fault::Unreachable),
    ("unable to connect", Fault::Unreachable),
    ("timed out", Fault::Unreachable),
    ("no route to host", Fault::Unreachable),
    ("network is unreachable", Fault::Unreachable),
    ("repository not found", Fault::NotThere),
    ("not found", Fault::NotThere),
    ("does not exist", Fault::NotThere),
    ("does not appear to be a git repository", Fault::NotThere),
    ("not a git repository", Fault::NotThere),
];

impl Fault {
    /// By what Git said. Lines that it repeats from the far server begin with `remote:` and count for nothing.
    pub fn of(failure: &Failure) -> Self {
        let said = match failure {
            Failure::Exit { stderr, .. } => stderr,
            Failure::TimedOut { .. } => return Self::TooSlow,
            _ => return Self::Other,
        };
        let own = said.split("; ").filter(|line| !line.starts_with("remote:"));
        let own = own.collect::<Vec<_>>().join("\n").to_ascii_lowercase();
        if let Some(rule) = said.split("; ").find_map(broken_rule) {
            return Self::Harmful(rule.to_owned());
        }
        KNOWN.iter().find(|(text, _)| own.contains(text)).map_or(Self::Other, |(_, fault)| fault.clone())
    }
}

/// The name of the rule in `error: object ID: RULE: what is wrong`, which our own Git prints when it checks objects.
fn broken_rule(line: &str) -> Option<&str> {
    let (_, rest) = line.strip_prefix("error: object ")?.split_once(": ")?;
    let rule = rest.split(':').next()?;
    let is_name = !rule.is_empty() && rule.len() <= 40 && rule.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_name.then_some(rule)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_fault_is_told_by_what_git_says_and_not_by_what_the_far_server_says() {
        for (stderr, fault) in [
            ("fatal: unable to access 'https://x/y': The requested URL returned error: 301", Fault::Moved),
            (
                "remote: permission denied; fatal: unable to access: Could not resolve host: x",
                Fault::UnknownHost,
            ),
            ("remote: secret page; fatal: something else", Fault::Other),
            ("fatal: unable to connect to 127.0.0.1: errno=Connection refused", Fault::Unreachable),
            ("fatal: '/x' does not appear to be a git repository", Fault::NotThere),
            (
                "error: object 0123: hasDotgit: contains '.git'; fatal: fsck error in packed object",
                Fault::Harmful("hasDotgit".to_owned()),
            ),
        ] {
            let status = std::process::ExitStatus::from_raw(128 << 8);
            let failure = Failure::Exit { name: "fetch".to_owned(), status, stderr: stderr.to_owned() };
            assert_eq!(Fault::of(&failure), fault, "{stderr}");
            assert!(!Fault::of(&failure).to_string().contains("secret"));
        }
    }
}
