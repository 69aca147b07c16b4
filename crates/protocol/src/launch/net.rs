//! The part of the environment that leads programs to the door: proxy, models and Git.

use std::collections::BTreeMap;

use super::LaunchSpec;

/// What goes by no proxy: the sandbox's own loopback, which is where a local door is.
const NO_PROXY: &str = "127.0.0.1,localhost";
/// In whose name commits are made when the project does not say.
const AUTHOR_NAME: &str = "Omoi";
const AUTHOR_EMAIL: &str = "sandbox@omoi.invalid";

pub(super) fn vars(launch: &LaunchSpec) -> Vec<(String, String)> {
    let vars = [proxy_vars(launch), model_vars(launch)].concat();
    let vars = vars.into_iter().map(|(name, value)| (name.to_owned(), value));
    vars.chain(git_vars(launch)).collect()
}

/// The same for what may not speak for the sandbox: a way out, and a Git that knows no token.
pub(super) fn plain_vars(launch: &LaunchSpec) -> Vec<(String, String)> {
    let proxy = proxy_vars(launch).into_iter().map(|(name, value)| (name.to_owned(), value));
    proxy.chain(settings_vars(&git_settings(launch))).collect()
}

impl LaunchSpec {
    /// Of the environment, what lets Git through the door and says in whose name it commits.
    pub fn git_environment(&self) -> BTreeMap<String, String> {
        git_vars(self).into_iter().collect()
    }
}

/// In both cases, because some programs read only the one and some only the other.
fn proxy_vars(launch: &LaunchSpec) -> Vec<(&'static str, String)> {
    let Some(proxy) = &launch.door.proxy_url else { return Vec::new() };
    let mut vars = vec![
        // Node passes over the others without it.
        ("NODE_USE_ENV_PROXY", "1".to_owned()),
    ];
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        vars.push((name, proxy.clone()));
    }
    let door = launch.door.host();
    let direct = if NO_PROXY.split(',').any(|host| host == door) {
        NO_PROXY.to_owned()
    } else {
        format!("{NO_PROXY},{door}")
    };
    vars.extend(["NO_PROXY", "no_proxy"].map(|name| (name, direct.clone())));
    vars
}

/// The key is the sandbox's token, which opens nothing but this sandbox's door.
fn model_vars(launch: &LaunchSpec) -> Vec<(&'static str, String)> {
    let Some(models) = &launch.door.model_url else { return Vec::new() };
    let key = launch.token.expose();
    vec![
        ("ANTHROPIC_BASE_URL", format!("{models}/anthropic")),
        ("ANTHROPIC_API_KEY", key.to_owned()),
        // By custom this one includes the version.
        ("OPENAI_BASE_URL", format!("{models}/openai/v1")),
        ("OPENAI_API_KEY", key.to_owned()),
    ]
}

/// Settings of Git that no file has to hold. The token goes to the door's Git alone.
fn git_vars(launch: &LaunchSpec) -> Vec<(String, String)> {
    let mut settings = git_settings(launch);
    settings.push((
        format!("http.{}/git/.extraHeader", launch.door.url),
        format!("Authorization: Bearer {}", launch.token.expose()),
    ));
    settings_vars(&settings)
}

fn git_settings(launch: &LaunchSpec) -> Vec<(String, String)> {
    let repository = launch.repository.as_ref();
    let name = repository.and_then(|repository| repository.author_name.as_deref()).unwrap_or(AUTHOR_NAME);
    let email = repository.and_then(|repository| repository.author_email.as_deref()).unwrap_or(AUTHOR_EMAIL);
    vec![
        ("user.name".to_owned(), name.to_owned()),
        ("user.email".to_owned(), email.to_owned()),
        // Whoever prepared the work tree may have another user id.
        ("safe.directory".to_owned(), launch.workspace_path.clone()),
    ]
}

fn settings_vars(settings: &[(String, String)]) -> Vec<(String, String)> {
    let mut vars = vec![
        ("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned()),
        ("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string()),
    ];
    for (n, (key, value)) in settings.iter().enumerate() {
        vars.push((format!("GIT_CONFIG_KEY_{n}"), key.clone()));
        vars.push((format!("GIT_CONFIG_VALUE_{n}"), value.clone()));
    }
    vars
}
