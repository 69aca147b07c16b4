//! PostgreSQL: the same statements over a connection of our own, with prepared statements kept per connection.

use std::{collections::HashMap, rc::Rc, time::Duration};

use bytes::BytesMut;
use futures_util::future::{join, join_all};
use tokio::task::AbortHandle;
use tokio_postgres::{
    Client, Config, Connection, NoTls, Socket, Statement,
    config::{Host, SslMode},
    error::SqlState,
    tls::MakeTlsConnect,
    types::{FromSql, IsNull, ToSql, Type, to_sql_checked},
};

use super::{
    Error, tx,
    value::{Row, Value},
};

/// Whoever writes holds this lock until commit, in any process, so that positions are given out in the order of
/// commit and a rule that reads, decides and writes is never overtaken.
pub(super) const WRITE_LOCK: i64 = 0x6f6d_6f69;
pub(super) const MIGRATION_LOCK: i64 = WRITE_LOCK + 1;
/// Processes tell each other of new rows here; the notice carries the last position.
pub(super) const CHANNEL: &str = "omoi_events";
/// The database itself ends a statement that takes too long; if nothing comes even then, it is not there.
const MARGIN: Duration = Duration::from_secs(1);
/// Where PostgreSQL listens unless the address says otherwise.
const PORT: u16 = 5432;
/// So that a connection on which we only listen is found dead.
const KEEPALIVE: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub(super) struct Address {
    config: Config,
    connect_timeout: Duration,
    /// None for work that takes as long as it takes.
    statement_timeout: Option<Duration>,
}

impl Address {
    pub fn parse(url: &str, connect: Duration, statement_timeout: Duration) -> Result<Self, Error> {
        let mut config: Config = url.parse().map_err(|error| {
            Error::invalid("database_url", format!("database.url is not readable: {error}"))
        })?;
        config.connect_timeout(connect).application_name("omoi").tcp_user_timeout(statement_timeout);
        config.keepalives_idle(KEEPALIVE).keepalives_interval(KEEPALIVE).keepalives_retries(3);
        Ok(Self { config, connect_timeout: connect, statement_timeout: Some(statement_timeout) })
    }

    /// The same without a limit to what a statement takes. A connection that is lost ends it all the same.
    pub fn unhurried(self) -> Self {
        Self { statement_timeout: None, ..self }
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
        let (client, driver) = if self.wants_tls() {
            let tls = super::tls::connector()?;
            spawn(self.connected(tls).await?)
        } else {
            spawn(self.connected(NoTls).await?)
        };
        let patience = self.statement_timeout.map(|limit| limit + MARGIN);
        let mut conn = PgConn {
            client,
            driver,
            patience,
            silent: false,
            statements: HashMap::new(),
            pending: Vec::new(),
            transaction_id: None,
            stood_alone: false,
        };
        let limit = self.statement_timeout.map_or(0, |limit| limit.as_millis());
        // Every query has its index, whatever the statistics of a table that has just grown say; and none is long
        // enough to be worth compiling, or to be planned anew for each value: that took longer than most take to run.
        conn.batch(&format!(
            "SET statement_timeout = {limit}; SET idle_in_transaction_session_timeout = {limit}; \
             SET default_transaction_isolation = 'read committed'; SET synchronous_commit = on; \
             SET enable_seqscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan"
        ))
        .await?;
        Ok(conn)
    }

    async fn connected<T>(&self, tls: T) -> Result<(Client, Connection<Socket, T::Stream>), Error>
    where
        T: MakeTlsConnect<Socket>,
    {
        // The driver's own limit ends once the socket is open; whoever listens there may still say nothing.
        let connected = tokio::time::timeout(self.connect_timeout, self.config.connect(tls)).await;
        let connected = connected.map_err(|_| said_nothing(self.connect_timeout));
        connected.and_then(|connected| connected.map_err(fault)).map_err(|error| match error {
            Error::Unavailable(why) => Error::Unavailable(format!("{}: {why}", self.hosts())),
            error => error,
        })
    }

    /// Where it is, without who asks and their password.
    fn hosts(&self) -> String {
        let ports = self.config.get_ports();
        let host = |(at, host): (usize, &Host)| {
            // One port may stand for all of them.
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(PORT);
            match host {
                Host::Tcp(name) if name.contains(':') => format!("[{name}]:{port}"),
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(directory) => directory.display().to_string(),
            }
        };
        self.config.get_hosts().iter().enumerate().map(host).collect::<Vec<_>>().join(", ")
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

fn spawn<S>((client, connection): (Client, Connection<Socket, S>)) -> (Client, AbortHandle)
where
    S: tokio_postgres::tls::TlsStream + Unpin + Send + 'static,
{
    let driver = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a database connection ended");
        }
    });
    (client, driver.abort_handle())
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
    driver: AbortHandle,
    /// None where the database may take its time.
    patience: Option<Duration>,
    /// The database kept us waiting, so nobody knows what it still does for us here.
    silent: bool,
    statements: HashMap<String, Statement>,
    /// Said with the next question, so that many statements cost one round trip.
    pending: Vec<Pending>,
    /// Of the transaction that writes, once it has begun.
    transaction_id: Option<i64>,
    /// Whether it was one question alone, which is undone if it fails.
    stood_alone: bool,
}

/// A statement nobody waits for the answer of. If it fails, so does the next question.
enum Pending {
    Begin(Statement),
    Prepared(Statement, Vec<Value>),
}

impl Pending {
    /// The beginning tells the id of the transaction. It is given out under the lock, and to all that write: if it
    /// follows the last one of ours, nobody else has written between the two.
    async fn say(&self, client: &Client) -> Result<Option<i64>, tokio_postgres::Error> {
        match self {
            Self::Begin(lock) => {
                let (begun, locked) = join(client.batch_execute("BEGIN"), client.query_one(lock, &[])).await;
                begun?;
                locked?.try_get(0).map(Some)
            }
            Self::Prepared(statement, params) => {
                client.execute(statement, &borrowed(params)).await.map(|_| None)
            }
        }
    }
}

impl Drop for PgConn {
    fn drop(&mut self) {
        // Otherwise it would go on waiting for its answer, and the database for us.
        if self.silent {
            self.driver.abort();
        }
    }
}

impl PgConn {
    pub fn is_closed(&self) -> bool {
        self.silent || self.client.is_closed()
    }

    /// Asks one thing, behind all that is pending.
    async fn ask<T>(
        &mut self,
        question: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        let pending = std::mem::take(&mut self.pending);
        let client = &self.client;
        let said = join_all(pending.iter().map(|pending| pending.say(client)));
        let asked = join(said, question(client));
        let (said, answer) = match self.patience {
            None => asked.await,
            Some(patience) => match tokio::time::timeout(patience, asked).await {
                Ok(heard) => heard,
                Err(_) => {
                    self.silent = true;
                    return Err(said_nothing(patience));
                }
            },
        };
        for said in said {
            self.transaction_id = said.map_err(fault)?.or(self.transaction_id);
        }
        answer.map_err(fault)
    }

    pub async fn batch(&mut self, sql: &str) -> Result<(), Error> {
        self.ask(async |client| client.batch_execute(sql).await).await
    }

    pub async fn begin_writing(&mut self) -> Result<(), Error> {
        self.transaction_id = None;
        self.stood_alone = false;
        self.pending.clear();
        // First the lock, then the id.
        let lock =
            self.prepared(&format!("SELECT txid_current() FROM pg_advisory_xact_lock({WRITE_LOCK})")).await?;
        self.pending.push(Pending::Begin(lock));
        Ok(())
    }

    pub fn known_transaction_id(&self) -> Option<i64> {
        self.transaction_id
    }

    /// Of the transaction that writes; asks for nothing if it is known.
    pub async fn transaction_id(&mut self) -> Result<i64, Error> {
        if self.transaction_id.is_none() {
            self.ask(async |_| Ok(())).await?;
        }
        self.transaction_id.ok_or_else(|| Error::corrupt("txid_current", "missing"))
    }

    pub async fn rollback(&mut self) -> Result<(), Error> {
        self.pending.clear();
        if self.is_closed() || self.stood_alone { Ok(()) } else { self.batch("ROLLBACK").await }
    }

    pub async fn query(&mut self, sql: &str, params: Vec<Value>) -> Result<Vec<Row>, Error> {
        let statement = self.prepared(sql).await?;
        let rows = self.ask(async |client| client.query(&statement, &borrowed(&params)).await).await?;
        read(&statement, &rows)
    }

    /// The last question of a transaction and its commit, in one round trip. If the question fails, the commit
    /// undoes the transaction.
    pub async fn query_and_commit(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let statement = self.prepared(sql).await?;
        let (rows, committed) = self
            .ask(async |client| {
                Ok(join(client.query(&statement, params), client.batch_execute("COMMIT")).await)
            })
            .await?;
        let rows = rows.map_err(fault)?;
        committed.map_err(fault)?;
        read(&statement, &rows)
    }

    /// A question that is a transaction of its own and takes the lock itself: it costs a third of one that begins and commits.
    pub async fn query_alone(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        self.pending.clear();
        self.stood_alone = true;
        let statement = self.prepared(sql).await?;
        let rows = self.ask(async |client| client.query(&statement, params).await).await?;
        read(&statement, &rows)
    }

    /// Whether nothing was said yet in the transaction, nor is anything to be.
    pub fn has_said_nothing(&self) -> bool {
        matches!(self.pending[..], [Pending::Begin(_)])
    }

    pub fn set_transaction_id(&mut self, id: i64) {
        self.transaction_id = Some(id);
    }

    pub async fn execute(&mut self, sql: &str, params: Vec<Value>) -> Result<(), Error> {
        let statement = self.prepared(sql).await?;
        self.pending.push(Pending::Prepared(statement, params));
        Ok(())
    }

    async fn prepared(&mut self, sql: &str) -> Result<Statement, Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.ask(async |client| client.prepare(sql).await).await?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// Texts are compared byte by byte, as SQLite does, whatever language the database speaks: the order of ids is then
/// the same everywhere, and found faster. What SQLite does not know how to do is a comment to it.
pub(super) fn migration(sql: &str) -> String {
    sql.replace("-- PostgreSQL: ", "").replace(" TEXT", " TEXT COLLATE \"C\"")
}

/// All but the last become parts of it, with their values numbered on.
pub(super) fn as_one(statements: Vec<tx::Statement>) -> (String, Vec<Value>) {
    let (mut sql, mut values) = (String::new(), Vec::new());
    let last = statements.len().saturating_sub(1);
    for (at, (text, params)) in statements.into_iter().enumerate() {
        let numbered = numbered_from(text, values.len());
        let word = if at == 0 { "WITH" } else { "," };
        match at == last {
            true => sql.push_str(&numbered),
            false => sql.push_str(&format!("{word} part{at} AS ({numbered}) ")),
        }
        values.extend(params);
    }
    (sql, values)
}

fn numbered_from(sql: &str, first: usize) -> String {
    let mut parts = sql.split('$');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let number = part[..digits].parse::<usize>().map_or(0, |n| n + first);
        out.push_str(&format!("${number}{}", &part[digits..]));
    }
    out
}

fn read(statement: &Statement, rows: &[tokio_postgres::Row]) -> Result<Vec<Row>, Error> {
    let columns: Rc<[String]> = statement.columns().iter().map(|c| c.name().to_owned()).collect();
    let row = |row: &tokio_postgres::Row| {
        let values = (0..columns.len()).map(|at| row.try_get(at).map_err(fault));
        Ok(Row { columns: Rc::clone(&columns), values: values.collect::<Result<_, Error>>()? })
    };
    rows.iter().map(row).collect()
}

fn borrowed(params: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    params.iter().map(|p| p as &(dyn ToSql + Sync)).collect()
}

fn said_nothing(for_so_long: Duration) -> Error {
    Error::Unavailable(format!("it has said nothing for {for_so_long:?}"))
}

/// A refusal by the server that a repeat would meet again is a defect of ours; everything else may pass.
pub(super) fn fault(error: tokio_postgres::Error) -> Error {
    let text = error.as_db_error().map_or_else(|| with_causes(&error), ToString::to_string);
    // Classes 22, 23, 42 and 54: data, constraint, syntax and size. The rest is connections, resources and shutdown.
    match error.code().map(|state| &state.code()[..2]) {
        _ if error.code() == Some(&SqlState::DISK_FULL) => Error::DiskFull(text),
        Some("22" | "23" | "42" | "54") => Error::Statement(text),
        _ => Error::Unavailable(text),
    }
}

/// The driver says what it was at; what went wrong there is behind it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
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
            Self::Ints(ints) => ints.to_sql(ty, out),
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Address, Error, Value, as_one};

    fn address(url: &str) -> Address {
        Address::parse(url, Duration::from_secs(5), Duration::from_secs(5)).unwrap()
    }

    #[tokio::test]
    async fn a_connection_that_fails_says_where_and_why_and_no_password() {
        // Nothing listens on a port that was just given back.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        drop(listener);
        let refused = address(&format!("postgres://omoi:hidden@{place}/omoi")).connect().await;
        let Err(Error::Unavailable(why)) = refused else { panic!("somebody listens at {place}") };
        assert!(why.starts_with(&format!("{place}: ")) && why.contains("onnection refused"), "{why}");
        assert!(!why.contains("hidden"), "{why}");
    }

    #[test]
    fn a_database_is_told_by_its_hosts_and_ports() {
        for (url, hosts) in [
            ("postgres://omoi:hidden@db/omoi", "db:5432"),
            ("postgres://a:1,b:2/omoi", "a:1, b:2"),
            ("host=a,b port=7", "a:7, b:7"),
            ("postgres://[::1]:5433/omoi", "[::1]:5433"),
            ("host=/run/postgresql", "/run/postgresql"),
        ] {
            assert_eq!(address(url).hosts(), hosts, "{url}");
        }
    }

    #[test]
    fn statements_said_as_one_keep_their_values() {
        let statements = vec![
            ("UPDATE a SET x = $2 WHERE id = $1", vec![Value::Int(1), Value::Int(2)]),
            ("INSERT INTO b VALUES ($1)", vec![Value::Int(3)]),
            ("INSERT INTO c VALUES ($1, 'z', $2)", vec![Value::Int(4), Value::Int(5)]),
        ];
        let (sql, values) = as_one(statements);
        assert_eq!(
            sql,
            "WITH part0 AS (UPDATE a SET x = $2 WHERE id = $1) , part1 AS (INSERT INTO b VALUES ($3)) \
             INSERT INTO c VALUES ($4, 'z', $5)"
        );
        assert_eq!(values, (1..=5).map(Value::Int).collect::<Vec<_>>());
        assert_eq!(as_one(vec![("DELETE FROM a", vec![])]).0, "DELETE FROM a");
    }
}
