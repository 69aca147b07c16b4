//! The secrets of the configuration, to be masked wherever they turn up.

use omoi_redact::Secrets;
use secrecy::ExposeSecret;

use super::{Config, DatabaseUrl};

impl Config {
    /// Knows every secret of this configuration, and Omoi's tokens by their shape. To compile it takes a moment, and its
    /// clones are cheap.
    pub fn secrets(&self) -> Secrets {
        let keys = [&self.model.anthropic_api_key, &self.model.openai_api_key].map(super::Secret::expose);
        let git = self.git.token.as_ref().map(ExposeSecret::expose_secret);
        let known = keys.into_iter().chain([git]).flatten().map(str::to_owned);
        Secrets::new(known.chain(self.database.url.password()))
    }
}

impl DatabaseUrl {
    fn password(&self) -> Option<String> {
        let Self::Postgres(url) = self else { return None };
        let config: tokio_postgres::Config = url.expose_secret().parse().ok()?;
        String::from_utf8(config.get_password()?.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_secret_of_the_configuration_is_masked() {
        let mut config = Config::default();
        config.model.anthropic_api_key = "sk-ant-0123".into();
        config.model.openai_api_key = "sk-oai-0123".into();
        config.git.token = Some("ghp_0123456789".into());
        config.database.url = DatabaseUrl::Postgres("postgres://omoi:p%40ss-w0rd@db/omoi".into());
        let secrets = config.secrets();
        for secret in ["sk-ant-0123", "sk-oai-0123", "ghp_0123456789", "p@ss-w0rd", "p%40ss-w0rd"] {
            assert_eq!(secrets.text(&format!("a {secret} b")), format!("a {} b", "*".repeat(secret.len())));
        }
    }
}
