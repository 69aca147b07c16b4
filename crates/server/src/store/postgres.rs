//! PostgreSQL: the same statements over a connection of our own, with prepared statements kept per connection.

use std::{collections::HashMap, rc::Rc, time::Duration};

use bytes::BytesMut;
use tokio_postgres::{
    Client, Config, Connection, NoTls, Socket, Statement,
    config::{Host, SslMode},
    tls::MakeTlsConnect,
    types::{FromSql, IsNull, ToSql, Type, to_sql_checked},
};

use super::{
    Error,
    value::{Row, Value},
};

/// Whoever writes holds this lock until commit, in any process, so that positions are given out in the order of
/// commit and a rule that reads, decides and writes is never overtaken.
const WRITE_LOCK: i64 = 0x6f6d_6f69;
pub(super) const MIGRATION_LOCK: i64 = WRITE_LOCK + 1;
/// Processes tell each other of new rows here; the notice carries the last position.
pub(super) const CHANNEL: &str = "omoi_events";

#[derive(Clone)]
pub(super) struct Address {
    config: Config,
    statement_timeout: Duration,
}

impl Address {
    pub fn parse(url: &str, connect: Duration, statement_timeout: Duration) -> Result<Self, Error> {
        let mut config: Config = url.parse().map_err(|error| {
            Error::invalid("database_url", format!("database.url is not readable: {error}"))
        })?;
        config.connect_timeout(connect).application_name("omoi").tcp_user_timeout(statement_timeout);
        Ok(Self { config, statement_timeout })
    }

    /// Across a network the connection is encrypted unless `sslmode=disable` says otherwise.
    fn wants_tls(&self) -> bool {
        let near = self.config.get_hosts().iter().all(|host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => {
                name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
        });
        match self.config.get_ssl_mode() {
            SslMode::Disable => false,
            SslMode::Prefer => !near,
            _ => true,
        }
    }

    pub async fn connect(&self) -> Result<PgConn, Error> {
        let client = if self.wants_tls() {
            let tls = super::tls::connector()?;
            spawn(self.connected(tls).await?)
        } else {
            spawn(self.connected(NoTls).await?)
        };
        let conn = PgConn { client, statements: HashMap::new() };
        let limit = self.statement_timeout.as_millis();
        conn.batch(&format!(
            "SET statement_timeout = {limit}; SET idle_in_transaction_session_timeout = {limit}; \
             SET default_transaction_isolation = 'read committed'; SET synchronous_commit = on"
        ))
        .await?;
        Ok(conn)
    }

    async fn connected<T>(&self, tls: T) -> Result<(Client, Connection<Socket, T::Stream>), Error>
    where
        T: MakeTlsConnect<Socket>,
    {
        self.config.connect(tls).await.map_err(fault)
    }

    /// Calls `heard` with the position in each notice, until the connection ends.
    pub async fn listen(&self, heard: impl Fn(i64)) -> Result<(), Error> {
        if self.wants_tls() {
            listen(self.connected(super::tls::connector()?).await?, heard).await
        } else {
            listen(self.connected(NoTls).await?, heard).await
        }
    }
}

fn spawn<S>((client, connection): (Client, Connection<Socket, S>)) -> Client
where
    S: tokio_postgres::tls::TlsStream + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a database connection ended");
        }
    });
    client
}

async fn listen<S>(
    (client, mut connection): (Client, Connection<Socket, S>),
    heard: impl Fn(i64),
) -> Result<(), Error>
where
    S: tokio_postgres::tls::TlsStream + Unpin + Send + 'static,
{
    let sql = format!("LISTEN {CHANNEL}");
    let mut listening = std::pin::pin!(client.batch_execute(&sql));
    let mut asked = false;
    loop {
        tokio::select! {
            done = &mut listening, if !asked => {
                done.map_err(fault)?;
                asked = true;
                // What was written before we listened is asked for, not heard.
                heard(i64::MAX);
            }
            message = std::future::poll_fn(|cx| connection.poll_message(cx)) => match message {
                Some(Ok(tokio_postgres::AsyncMessage::Notification(notice))) => {
                    heard(notice.payload().parse().unwrap_or(i64::MAX));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(fault(error)),
                None => return Err(Error::Unavailable("the listening connection ended".to_owned())),
            },
        }
    }
}

pub(super) struct PgConn {
    client: Client,
    statements: HashMap<String, Statement>,
}

impl PgConn {
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub async fn batch(&self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).await.map_err(fault)
    }

    pub async fn begin_writing(&mut self) -> Result<(), Error> {
        self.batch(&format!("BEGIN; SELECT pg_advisory_xact_lock({WRITE_LOCK})")).await
    }

    pub async fn rollback(&mut self) -> Result<(), Error> {
        if self.is_closed() { Ok(()) } else { self.batch("ROLLBACK").await }
    }

    pub async fn query(&mut self, sql: &str, params: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.rows(sql, &borrowed(&params)).await
    }

    async fn rows(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        let statement = self.prepared(sql).await?;
        let rows = self.client.query(&statement, params).await.map_err(fault)?;
        let columns: Rc<[String]> = statement.columns().iter().map(|c| c.name().to_owned()).collect();
        let row = |row: &tokio_postgres::Row| {
            let values = (0..columns.len()).map(|at| row.try_get(at).map_err(fault));
            Ok(Row { columns: Rc::clone(&columns), values: values.collect::<Result<_, Error>>()? })
        };
        rows.iter().map(row).collect()
    }

    pub async fn execute(&mut self, sql: &str, params: Vec<Value>) -> Result<u64, Error> {
        let statement = self.prepared(sql).await?;
        self.client.execute(&statement, &borrowed(&params)).await.map_err(fault)
    }

    /// For whole columns, which `Value` does not carry.
    pub async fn query_raw(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        Ok(self.rows(sql, params).await?.into_iter().next())
    }

    pub async fn execute_raw(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        let statement = self.prepared(sql).await?;
        self.client.execute(&statement, params).await.map_err(fault)
    }

    async fn prepared(&mut self, sql: &str) -> Result<Statement, Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await.map_err(fault)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

fn borrowed(params: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    params.iter().map(|p| p as &(dyn ToSql + Sync)).collect()
}

/// A refusal by the server that a repeat would meet again is a defect of ours; everything else may pass.
pub(super) fn fault(error: tokio_postgres::Error) -> Error {
    let text = error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string);
    // Classes 22, 23 and 42: data, constraint and syntax. The rest is connections, resources and shutdown.
    match error.code().map(|state| &state.code()[..2]) {
        Some("22" | "23" | "42") => Error::Statement(text),
        _ => Error::Unavailable(text),
    }
}

impl ToSql for Value {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(n) if *ty == Type::FLOAT8 => (*n as f64).to_sql(ty, out),
            Self::Int(n) if *ty == Type::INT4 => i32::try_from(*n)?.to_sql(ty, out),
            Self::Int(n) => n.to_sql(ty, out),
            Self::Real(x) => x.to_sql(ty, out),
            Self::Text(text) => text.to_sql(ty, out),
            Self::Bytes(bytes) => bytes.to_sql(ty, out),
            Self::Texts(texts) => texts.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match *ty {
            Type::INT8 => Self::Int(i64::from_sql(ty, raw)?),
            Type::INT4 => Self::Int(i64::from(i32::from_sql(ty, raw)?)),
            Type::BOOL => Self::Int(i64::from(bool::from_sql(ty, raw)?)),
            Type::FLOAT8 => Self::Real(f64::from_sql(ty, raw)?),
            Type::BYTEA => Self::Bytes(raw.to_vec()),
            _ => Self::Text(String::from_sql(ty, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(
            *ty,
            Type::INT8
                | Type::INT4
                | Type::BOOL
                | Type::FLOAT8
                | Type::BYTEA
                | Type::TEXT
                | Type::VARCHAR
                | Type::NAME
        )
    }
}
