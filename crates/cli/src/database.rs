//! The server's database, opened directly: also while a server runs on it.

use anyhow::Result;
use omoi_server::{clock::Clock, config::Config, data_dir, store::Store};

use crate::failure::{NOT_FOUND, Stop};

/// Opens it to write, brings its schema up to date, and makes it where there is none yet.
pub async fn open_or_make(config: Config) -> Result<Store> {
    data_dir::make(&config)?;
    let nobody_listens = Box::new(|_| {});
    Ok(Store::open(&for_one(config), Clock::Real, nobody_listens).await?)
}

/// Opens one that is there: a mistyped path is an error, not a new and empty database.
pub async fn open(config: Config) -> Result<Store> {
    must_exist(&config)?;
    open_or_make(config).await
}

/// The same to read from. Who only looks does not change the schema, which nobody can take back.
pub async fn open_to_read(config: Config) -> Result<Store> {
    must_exist(&config)?;
    Ok(Store::open_to_read(&for_one(config), Clock::Real).await?)
}

/// One command has one question at a time.
fn for_one(mut config: Config) -> Config {
    config.database.pool_size = 1;
    config
}

pub fn must_exist(config: &Config) -> Result<()> {
    match Store::file(config) {
        Some(path) if !path.exists() => {
            Err(Stop::new(NOT_FOUND, format!("there is no database at {}", path.display()))
                .hint("name the server's data directory with --data-dir; `omoi serve` makes a new one")
                .into())
        }
        _ => Ok(()),
    }
}
