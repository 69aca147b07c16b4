//! The schema and programs of another age: who changes it, how long that may take, and what others do meanwhile.

use std::time::Duration;

use omoi_protocol::{RepositoryReach, project::NewProject};
use omoi_server::{
    clock::Clock,
    config::DatabaseUrl,
    store::{Error, Store},
};
use secrecy::ExposeSecret;
use serde_json::json;
use tokio_postgres::{Client, NoTls};

use crate::{
    app::{App, On, eventually},
    on_both,
};

/// As the store has them.
const WRITE_LOCK: i64 = 0x6f6d_6f69;
const MIGRATION_LOCK: i64 = WRITE_LOCK + 1;

/// A connection of one's own to the PostgreSQL of an app.
async fn connect(app: &App) -> Client {
    let DatabaseUrl::Postgres(url) = &app.config.database.url else { panic!("on PostgreSQL") };
    let (client, connection) = tokio_postgres::connect(url.expose_secret(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Waits until somebody waits for a lock, and has done so for longer than this.
async fn somebody_waits(client: &Client, longer_than: Duration) {
    let sql = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory' \
               AND extract(epoch FROM clock_timestamp() - query_start) > $1::float8";
    let seconds = longer_than.as_secs_f64();
    eventually(async || (!client.query(sql, &[&seconds]).await.unwrap().is_empty()).then_some(())).await;
}

on_both! {
    async fn a_column_that_a_newer_program_added_is_no_concern_of_this_one(app: App) {
        app.sql("ALTER TABLE events ADD COLUMN later BIGINT NOT NULL DEFAULT 7").await;
        let sandbox = app.sandbox().await;
        app.event(&sandbox, "agent.thinking", json!({})).await.expect(200);
        assert_eq!(app.event_count(&sandbox).await, 1);
    }

    async fn who_only_reads_changes_no_schema_and_says_what_to_do(app: App) {
        assert_eq!(Store::check(&app.config).await.unwrap(), [] as [String; 0]);
        let store = Store::open_to_read(&app.config, Clock::Real).await.unwrap();
        let newest = store.schema_version().await.unwrap();
        assert_eq!(store.token_list(None, 10).await.unwrap().len(), 1);
        let new: NewProject = serde_json::from_value(json!({ "name": "parser" })).unwrap();
        assert!(matches!(store.project_create("me", new, RepositoryReach::Any).await, Err(Error::Unavailable(_))));
        for (sql, says) in [
            (format!("DELETE FROM schema_migrations WHERE version = {newest}"), "omoi db migrate"),
            ("INSERT INTO schema_migrations VALUES (9999)".to_owned(), "use a newer omoi"),
            ("DROP TABLE schema_migrations".to_owned(), "schema 0"),
        ] {
            app.sql(&sql).await;
            let opened = Store::open_to_read(&app.config, Clock::Real).await.map(|_| ());
            for refused in [opened, Store::check(&app.config).await.map(|_| ())] {
                let text = refused.unwrap_err().to_string();
                assert!(text.contains(says) && text.contains(&newest.to_string()), "{text}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_knows_no_runs_adds_no_events_unnoticed() {
    let app = App::start(On::Postgres).await;
    let client = connect(&app).await;
    let sql =
        "INSERT INTO events SELECT 1000000, 'sandbox', 'sbx-1', 1, NULL, 0, 'a', 1, 'agent', '{}', 0, NULL";
    let refused = client.batch_execute(sql).await.unwrap_err();
    assert_eq!(refused.code(), Some(&tokio_postgres::error::SqlState::NOT_NULL_VIOLATION));
}

/// The limits of requests are not those of a change of the schema, nor of the wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_waits_for_a_migration_for_as_long_as_it_takes() {
    let app = App::start(On::Postgres).await;
    let client = connect(&app).await;
    client.batch_execute(&format!("SELECT pg_advisory_lock({MIGRATION_LOCK})")).await.unwrap();
    let mut config = app.config.clone();
    config.database.statement_timeout = Duration::from_millis(200);
    config.limits.request_timeout = Duration::from_millis(200);
    let starting =
        tokio::spawn(async move { Store::open(&config, Clock::Real, Box::new(|_| {})).await.map(|_| ()) });
    somebody_waits(&client, Duration::from_secs(2)).await;
    assert!(!starting.is_finished());
    client.batch_execute(&format!("SELECT pg_advisory_unlock({MIGRATION_LOCK})")).await.unwrap();
    starting.await.unwrap().unwrap();
}

/// A statement that takes too long is the fault of whoever asked for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_database_gives_up_on_fails_alone() {
    let app = App::start(On::Postgres).await;
    app.breaks("INSERT ON projects", "NEW.name = 'slow'").await;
    let client = connect(&app).await;
    client.batch_execute(&format!("SELECT pg_advisory_lock({WRITE_LOCK})")).await.unwrap();
    let make = async |name: &str| {
        let new: NewProject = serde_json::from_value(json!({ "name": name })).unwrap();
        app.store().project_create("me", new, RepositoryReach::Any).await
    };
    let first = tokio::spawn({
        let store = app.store().clone();
        let new: NewProject = serde_json::from_value(json!({ "name": "first" })).unwrap();
        async move { store.project_create("me", new, RepositoryReach::Any).await }
    });
    somebody_waits(&client, Duration::ZERO).await;
    // All of these are in the queue before the writer can take any of them.
    let unlock = format!("SELECT pg_advisory_unlock({WRITE_LOCK})");
    let (before, slow, after, _) =
        tokio::join!(make("before"), make("slow"), make("after"), client.batch_execute(&unlock));
    first.await.unwrap().unwrap();
    before.unwrap();
    after.unwrap();
    assert!(matches!(slow, Err(Error::Unavailable(_))));
}
