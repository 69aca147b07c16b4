//! What the store stands on is taken away: the disk is full, or files are removed while the server uses them. Callers are
//! told what happened, readiness fails, and nothing is acknowledged that nobody could read later.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use omoi_server::store::Store;
use serde_json::json;
use tokio::task::JoinSet;

use crate::app::{Answer, App, On, Sandbox, eventually};

const EVERYTHING_FULL: &str = "\
    CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS \
      $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$; \
    CREATE TRIGGER full_disk BEFORE INSERT ON events EXECUTE FUNCTION full_disk(); \
    CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON marks EXECUTE FUNCTION full_disk()";

async fn send(app: &App, sandbox: &Sandbox, n: i64) -> Answer {
    let event = json!({ "event_type": "agent.thinking", "event_data": { "n": n }, "worker_seq": n });
    app.post_as(sandbox, "/events", event).await
}

fn database(app: &App) -> PathBuf {
    Store::file(&app.config).unwrap()
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    format!("{}{ending}", path.display()).into()
}

/// The copy that the server has made of a database whose file was removed.
fn rescued(app: &App) -> PathBuf {
    let entries = fs::read_dir(&app.config.data_dir).unwrap().map(|entry| entry.unwrap().path());
    let mut copies = entries.filter(|path| path.to_str().unwrap().contains("omoi.db.rescued-"));
    let copy = copies.next().expect("a copy is there");
    assert_eq!(copies.next(), None);
    copy
}

/// The numbers of all events of a sandbox, in their order.
async fn numbers(app: &App, sandbox: &Sandbox) -> Vec<i64> {
    let page = app.events(sandbox, "limit=500").await;
    let mut stored: Vec<_> = page["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["worker_seq"].as_i64().unwrap())
        .collect();
    stored.reverse();
    stored
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_of_postgresql_is_told_apart_and_passes() {
    let app = App::start(On::Postgres).await;
    let sandbox = app.sandbox().await;
    send(&app, &sandbox, 1).await.expect(200);
    app.get("/ready").await.expect(200);
    app.sql(EVERYTHING_FULL).await;
    let refused = send(&app, &sandbox, 2).await;
    assert!(refused.headers.contains_key("retry-after"));
    let problem = refused.refused(507, "disk_full");
    assert!(problem["detail"].as_str().unwrap().contains("PostgreSQL"), "{problem}");
    app.get("/ready").await.refused(503, "disk_full");
    assert_eq!(app.get("/api/v1/monitor/dashboard").await.expect(200)["disk"]["state"], "full");
    app.sql("DROP FUNCTION full_disk CASCADE").await;
    app.get("/ready").await.expect(200);
    send(&app, &sandbox, 2).await.expect(200);
    assert_eq!(numbers(&app, &sandbox).await, [1, 2]);
    assert_ne!(app.get("/api/v1/monitor/dashboard").await.expect(200)["disk"]["state"], "full");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_database_is_noticed_and_saved_and_not_made_again() {
    let mut app = App::start(On::Sqlite).await;
    let sandbox = app.sandbox().await;
    send(&app, &sandbox, 1).await.expect(200);
    let path = database(&app);
    fs::remove_file(&path).unwrap();
    let problem = send(&app, &sandbox, 2).await.refused(503, "database_removed");
    assert!(problem["detail"].as_str().unwrap().contains("omoi.db.rescued-"), "{problem}");
    app.get("/ready").await.refused(503, "database_removed");
    send(&app, &sandbox, 2).await.refused(503, "database_removed");
    assert!(!path.exists(), "a new and empty database would hide the loss");
    assert_eq!(numbers(&app, &sandbox).await, [1], "what is there can still be read");

    app.stop().await;
    for left in ["-wal", "-shm"] {
        let _ = fs::remove_file(beside(&path, left));
    }
    fs::rename(rescued(&app), &path).unwrap();
    app.start_again().await;
    send(&app, &sandbox, 2).await.expect(200);
    assert_eq!(numbers(&app, &sandbox).await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_database_is_noticed_and_left_as_it_is() {
    let app = App::start(On::Sqlite).await;
    let sandbox = app.sandbox().await;
    let (path, put_in) = (database(&app), app.config.data_dir.join("other"));
    fs::write(&put_in, "somebody's").unwrap();
    fs::rename(&put_in, &path).unwrap();
    send(&app, &sandbox, 1).await.refused(503, "database_removed");
    app.get("/ready").await.refused(503, "database_removed");
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_put_back_is_used_again() {
    let app = App::start(On::Sqlite).await;
    let sandbox = app.sandbox().await;
    let (path, away) = (database(&app), app.config.data_dir.join("away"));
    fs::rename(&path, &away).unwrap();
    send(&app, &sandbox, 1).await.refused(503, "database_removed");
    fs::rename(&away, &path).unwrap();
    app.get("/ready").await.expect(200);
    send(&app, &sandbox, 1).await.expect(200);
    assert_eq!(numbers(&app, &sandbox).await, [1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_log_is_noticed_and_what_it_held_is_there_after_a_restart() {
    for ending in ["-wal", "-shm"] {
        let mut app = App::start(On::Sqlite).await;
        let sandbox = app.sandbox().await;
        send(&app, &sandbox, 1).await.expect(200);
        fs::remove_file(beside(&database(&app), ending)).unwrap();
        let problem = send(&app, &sandbox, 2).await.refused(503, "database_removed");
        assert!(problem["detail"].as_str().unwrap().contains(ending), "{problem}");
        app.get("/ready").await.refused(503, "database_removed");
        app.restart().await;
        app.get("/ready").await.expect(200);
        assert_eq!(numbers(&app, &sandbox).await, [1], "{ending}");
        assert_eq!(Store::check(&app.config).await.unwrap(), [] as [String; 0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_log_is_saved_once_no_reader_stands_in_the_way() {
    let mut app = App::start(On::Sqlite).await;
    let sandbox = app.sandbox().await;
    let reader = rusqlite::Connection::open(database(&app)).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    reader.query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0)).unwrap();
    send(&app, &sandbox, 1).await.expect(200);
    fs::remove_file(beside(&database(&app), "-wal")).unwrap();
    let saved = |problem: &serde_json::Value| {
        problem["detail"].as_str().unwrap().contains("copied into the database")
    };
    let problem = send(&app, &sandbox, 2).await.refused(503, "database_removed");
    assert!(!saved(&problem), "a reader still uses an earlier part of the log: {problem}");
    reader.execute_batch("COMMIT").unwrap();
    drop(reader);
    let problem = send(&app, &sandbox, 2).await.refused(503, "database_removed");
    assert!(saved(&problem), "{problem}");
    app.restart().await;
    assert_eq!(numbers(&app, &sandbox).await[0], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moved_data_directory_is_noticed_and_not_made_again() {
    for on in [On::Sqlite, On::Postgres] {
        let outside = tempfile::tempdir().unwrap();
        let (dir, away) = (outside.path().join("data"), outside.path().join("away"));
        let app = App::start_with(on, |config| config.data_dir.clone_from(&dir)).await;
        let sandbox = app.sandbox().await;
        fs::rename(&dir, &away).unwrap();
        app.get("/ready").await.refused(503, "database_removed");
        if on == On::Sqlite {
            send(&app, &sandbox, 1).await.refused(503, "database_removed");
        }
        assert!(!dir.exists(), "{on:?}");
        fs::rename(&away, &dir).unwrap();
        app.get("/ready").await.expect(200);
        send(&app, &sandbox, 1).await.expect(200);
    }
}

/// Whatever was acknowledged before the file was removed, or while that was being noticed, is in the copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_acknowledged_that_only_a_removed_file_holds() {
    const WRITERS: usize = 4;
    let app = Arc::new(App::start(On::Sqlite).await);
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let app = app.clone();
        writers.spawn(async move {
            let sandbox = app.sandbox().await;
            let mut acknowledged = 0;
            while send(&app, &sandbox, acknowledged + 1).await.status == 200 {
                acknowledged += 1;
            }
            (sandbox.id, acknowledged)
        });
    }
    let before = app.position().await;
    eventually(async || (app.position().await > before + 40).then_some(())).await;
    fs::remove_file(database(&app)).unwrap();
    let written = writers.join_all().await;
    let copy = rusqlite::Connection::open(rescued(&app)).unwrap();
    for (sandbox, acknowledged) in written {
        let sql = "SELECT max(worker_seq) FROM events WHERE entity_id = ?1";
        let last: i64 = copy.query_row(sql, [&sandbox], |row| row.get(0)).unwrap();
        assert!(last >= acknowledged, "{sandbox}: {acknowledged} were acknowledged, {last} are in the copy");
    }
}
