//! What the worker says on standard error. A launcher keeps it in the sandbox's log, so tokens are masked in it.

use std::sync::LazyLock;

use omoi_redact::Secrets;

/// Knows tokens by their shape, since some things are said before there is a launch.
static TOKENS: LazyLock<Secrets> = LazyLock::new(|| Secrets::new::<&str>([]));

pub fn say(text: &str) {
    eprintln!("omoi-worker: {}", TOKENS.text(text));
}
