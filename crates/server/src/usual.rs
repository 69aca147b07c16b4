//! The policy of projects that have none of their own.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use omoi_protocol::PolicySource;

use crate::domain::supervision::policy::{self, DEFAULT, Policy};

/// What holds where a project does not say: a file of the server's, or what comes with the program.
#[derive(Debug, Clone)]
pub struct Usual {
    pub source: PolicySource,
    pub text: Arc<str>,
    pub policy: Arc<Policy>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("guardian.policy names {}, which cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("guardian.policy: {0}")]
    Policy(#[from] policy::Error),
}

impl Usual {
    pub fn load(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path else {
            let policy = Arc::new(Policy::shipped());
            return Ok(Self { source: PolicySource::Default, text: DEFAULT.into(), policy });
        };
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
        let policy = Arc::new(Policy::read(&path.display().to_string(), &text)?);
        Ok(Self { source: PolicySource::Server, text: text.into(), policy })
    }
}
