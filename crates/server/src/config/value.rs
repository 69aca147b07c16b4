//! The types of configured values that the standard library has no type for.

use std::{fmt, path::PathBuf};

use secrecy::{ExposeSecret, SecretString};

use super::form::{Form, Kind};

/// An address to listen on. The host is a name or an IP address, without the brackets of IPv6.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    pub host: String,
    pub port: u16,
}

/// Where the store is.
#[derive(Debug, Clone)]
pub enum DatabaseUrl {
    /// SQLite, in the data directory.
    DataDir,
    /// SQLite, in this file.
    Sqlite(PathBuf),
    /// PostgreSQL at this address, which may hold a password.
    Postgres(SecretString),
}

/// A key that may be set, and shows nowhere.
#[derive(Debug, Clone, Default)]
pub struct Secret(Option<SecretString>);

macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident, $accepts:literal { $($(#[$about:meta])* $variant:ident = $word:literal),+ })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$about])* $variant),+ }

        impl $name {
            pub(super) const FORM: Form<Self> = Form {
                accepts: $accepts,
                parse: |word| match word { $($word => Some(Self::$variant),)+ _ => None },
                show: |value| match value { $(Self::$variant => $word),+ }.to_owned(),
                kind: Kind::Plain,
            };
        }
    )+};
}

choices! {
    /// Which parts run in this process.
    ServerRole, "all, api or orchestrator" {
        All = "all",
        /// Requests and streams, no loops.
        Api = "api",
        /// Loops, and of requests only health and metrics.
        Orchestrator = "orchestrator"
    }

    LogFormat, "human or json" { Human = "human", Json = "json" }

    /// What follows when two tasks get in each other's way.
    OnConflict, "note or tell" {
        /// It is stored and shown.
        Note = "note",
        /// Both agents are told as well.
        Tell = "tell"
    }

    /// When SQLite waits for the disk.
    SqliteSynchronous, "full or normal" {
        /// At every commit: an acknowledged event survives a power cut.
        Full = "full",
        /// At checkpoints: faster, and a power cut may take the last commits.
        Normal = "normal"
    }
}

impl HostPort {
    pub(super) const FORM: Form<Self> =
        Form { accepts: "HOST:PORT", parse: Self::parse, show: Self::to_string, kind: Kind::Plain };

    fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = match host.strip_prefix('[') {
            Some(v6) => v6.strip_suffix(']').filter(|v6| v6.parse::<std::net::Ipv6Addr>().is_ok())?,
            None => host,
        };
        let bare = !host.is_empty() && (text.starts_with('[') || !host.contains([':', '/', '@', ' ', ']']));
        bare.then_some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl Secret {
    pub(super) const FORM: Form<Self> = Form {
        accepts: "empty, or a key of visible ASCII characters",
        parse: |text| text.bytes().all(|b| b.is_ascii_graphic()).then(|| Self::from(text)),
        show: |secret| if secret.0.is_some() { "***".to_owned() } else { String::new() },
        kind: Kind::Secret,
    };

    pub fn expose(&self) -> Option<&str> {
        self.0.as_ref().map(ExposeSecret::expose_secret)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self((!text.is_empty()).then(|| text.into()))
    }
}

impl DatabaseUrl {
    pub(super) const FORM: Form<Self> = Form {
        accepts: "empty, sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE",
        parse: Self::parse,
        show: Self::show,
        kind: Kind::Secret,
    };

    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::DataDir);
        }
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return (!path.is_empty() && !path.starts_with('~')).then(|| Self::Sqlite(path.into()));
        }
        let (scheme, rest) = text.split_once("://")?;
        // Python programs write the driver into the scheme, as in postgresql+psycopg.
        let (scheme, _driver) = scheme.split_once('+').unwrap_or((scheme, ""));
        let known = matches!(scheme, "postgres" | "postgresql") && !rest.is_empty();
        known.then(|| Self::Postgres(format!("postgres://{rest}").into()))
    }

    fn show(&self) -> String {
        match self {
            Self::DataDir => String::new(),
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
            Self::Postgres(url) => mask_password(url.expose_secret()),
        }
    }
}

/// Hides too much rather than too little: a password may hold any character, written badly or not, so everything
/// from the first colon to the last `@` goes, and so does a query that mentions a password.
fn mask_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "***".to_owned() };
    let (user, address) = match rest.rsplit_once('@') {
        Some((user, address)) => {
            (user.split_once(':').map_or(user.to_owned(), |(u, _)| format!("{u}:***")), address)
        }
        None => (String::new(), rest),
    };
    let address = match address.split_once('?') {
        Some((before, query)) if query.to_ascii_lowercase().contains("pass") => format!("{before}?***"),
        _ => address.to_owned(),
    };
    if user.is_empty() { format!("{scheme}://{address}") } else { format!("{scheme}://{user}@{address}") }
}

/// What may be repeated of a text that was refused: it may be an address with a user and a password, well written or not.
pub(super) fn mask_user(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((before, address)) => {
            let scheme = before.split_once("://").map(|(scheme, _)| format!("{scheme}://"));
            format!("{}***@{address}", scheme.unwrap_or_default())
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_told_apart() {
        for text in ["127.0.0.1:18000", "localhost:0", "[::1]:80", "omoi.example:443"] {
            assert_eq!(HostPort::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(HostPort::parse("[::1]:80").unwrap().host, "::1");
        for text in ["abc", ":80", "::1:80", "[::1]", "[abc]:80", "host:65536", "http://host:80", "[]:80"] {
            assert_eq!(HostPort::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_password_never_shows() {
        for (url, shown) in [
            ("postgres://omoi:hidden@db:5432/omoi", "postgres://omoi:***@db:5432/omoi"),
            ("postgresql+psycopg://omoi:hidden@db/omoi", "postgres://omoi:***@db/omoi"),
            ("postgres://omoi:hid@/hidden?@db/omoi", "postgres://omoi:***@db/omoi"),
            ("postgres://omoi@db/omoi?sslmode=require", "postgres://omoi@db/omoi?sslmode=require"),
            ("postgres://db/omoi?user=omoi&Password=hidden", "postgres://db/omoi?***"),
            ("sqlite:/srv/omoi.db", "sqlite:/srv/omoi.db"),
            ("sqlite:///srv/omoi.db", "sqlite:/srv/omoi.db"),
        ] {
            let parsed = DatabaseUrl::parse(url).unwrap();
            assert_eq!(parsed.show(), shown);
            assert!(!format!("{parsed:?}").contains("hidden"));
        }
        for (text, shown) in [
            ("https://user:hidden@proxy/v1?", "https://***@proxy/v1?"),
            ("https://user:hid@/hidden@proxy", "https://***@proxy"),
            ("https://a,https://user:hidden@b", "https://***@b"),
            ("user:hidden@proxy", "***@proxy"),
            ("ftp://proxy", "ftp://proxy"),
        ] {
            assert_eq!(mask_user(text), shown);
        }
        for url in ["mysql://db/omoi", "sqlite:", "postgres://", "/srv/omoi.db"] {
            assert!(DatabaseUrl::parse(url).is_none(), "{url}");
        }
    }
}
