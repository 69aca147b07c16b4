//! The private PostgreSQL: a fresh database for each server, and what is asked of the database directly.

use std::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use anyhow::{Context, ensure};
use tokio::sync::Mutex;
use tokio_postgres::{Client, Config, NoTls, config::Host};

use crate::proc::parent_of;

pub struct Postgres {
    config: Config,
    pub at: SocketAddr,
    user: String,
    postmaster: u32,
    made: AtomicU32,
    left: Mutex<Vec<String>>,
}

impl Postgres {
    pub async fn new(url: &str) -> anyhow::Result<Self> {
        let config: Config = url.parse().context("--postgres is not an address")?;
        let host = match config.get_hosts() {
            [Host::Tcp(host)] => host.as_str(),
            _ => anyhow::bail!("--postgres names no single TCP host"),
        };
        let host = if host == "localhost" { "127.0.0.1" } else { host };
        let ip: IpAddr = host.parse().context("--postgres is not on loopback")?;
        ensure!(ip.is_loopback(), "--postgres is not on loopback");
        let at = SocketAddr::new(ip, config.get_ports().first().copied().unwrap_or(5432));
        let user = credentials(&config)?;
        let client = connect(&config).await?;
        let backend: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
        let postmaster =
            parent_of(u32::try_from(backend)?).context("PostgreSQL does not run on this machine")?;
        Ok(Self { config, at, user, postmaster, made: AtomicU32::new(0), left: Mutex::default() })
    }

    pub async fn version(&self) -> anyhow::Result<String> {
        let client = connect(&self.config).await?;
        let version: String = client.query_one("SHOW server_version", &[]).await?.get(0);
        Ok(format!("PostgreSQL {version}"))
    }

    /// The process that all of the database's are children of.
    pub fn postmaster(&self) -> u32 {
        self.postmaster
    }

    pub async fn create(&self) -> anyhow::Result<String> {
        let name = format!("omoi_bench_{}_{}", std::process::id(), self.made.fetch_add(1, Relaxed));
        connect(&self.config).await?.execute(&format!("CREATE DATABASE {name}"), &[]).await?;
        self.left.lock().await.push(name.clone());
        Ok(name)
    }

    pub async fn drop(&self, name: &str) -> anyhow::Result<()> {
        connect(&self.config)
            .await?
            .execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"), &[])
            .await?;
        self.left.lock().await.retain(|left| left != name);
        Ok(())
    }

    /// What failed measurements have left.
    pub async fn drop_all(&self) -> anyhow::Result<()> {
        let left = self.left.lock().await.clone();
        for name in left {
            self.drop(&name).await?;
        }
        Ok(())
    }

    pub async fn connect(&self, database: &str) -> anyhow::Result<Client> {
        let mut config = self.config.clone();
        config.dbname(database);
        connect(&config).await
    }

    /// The address of a database, by way of another port where a proxy stands between.
    pub fn url(&self, database: &str, at: SocketAddr) -> String {
        format!("postgres://{}@{at}/{database}", self.user)
    }
}

fn credentials(config: &Config) -> anyhow::Result<String> {
    let user = config.get_user().context("--postgres names no user")?;
    let Some(password) = config.get_password() else { return Ok(user.to_owned()) };
    Ok(format!("{user}:{}", std::str::from_utf8(password)?))
}

/// The connection ends with its client.
async fn connect(config: &Config) -> anyhow::Result<Client> {
    let (client, connection) = config.connect(NoTls).await.context("cannot connect to PostgreSQL")?;
    tokio::spawn(connection);
    Ok(client)
}
