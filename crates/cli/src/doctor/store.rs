//! Whether the server's data can be kept where the configuration wants it.

use std::{
    fs,
    io::{self, Read},
    net::ToSocketAddrs,
    path::{Path, PathBuf},
    time::Duration,
};

use omoi_server::{
    clock::Clock,
    config::{Config, DatabaseUrl, Resolved},
    data_dir,
    disk::{FREE_BYTES_LOW, FREE_BYTES_MIN, FREE_BYTES_SANDBOXES, Room},
    git,
    store::Store,
};

use super::{Check, Need, scratch_name};
use crate::text::size;

const AREA: &str = "store";
pub const DATA_DIR: &str = "data directory";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const POSTGRES_PORT: u16 = 5432;
/// Refs named of one damaged mirror.
const LOST_SHOWN: usize = 5;
/// How often and at what distance the removal of the scratch database is tried.
const REMOVALS_MAX: u32 = 20;
const REMOVE_AGAIN: Duration = Duration::from_millis(50);

pub async fn checks(resolved: &Resolved) -> Vec<Check> {
    let config = &resolved.config;
    let directory = writable(&config.data_dir);
    let database = match &config.database.url {
        DatabaseUrl::DataDir | DatabaseUrl::Sqlite(_) => sqlite(config).await,
        DatabaseUrl::Postgres(_) => {
            let entry = resolved.entries.iter().find(|entry| entry.key == "database.url");
            // Masked, but for the address.
            postgres(entry.map_or("", |entry| &entry.value)).await
        }
    };
    let mut checks = vec![
        directory.needed_by(Need::Server),
        modes(config).needed_by(Need::Server),
        database.needed_by(Need::Server),
        mirrors(&config.data_dir),
        disk(&config.data_dir),
    ];
    // An embedded database may be on another disk.
    let beside = Store::file(config).and_then(|file| Some(file.parent()?.to_owned()));
    checks.extend(beside.filter(|dir| *dir != config.data_dir).map(|dir| disk(&dir)));
    checks
}

/// Whether others than the owner can read what the server stores.
fn modes(config: &Config) -> Check {
    let name = "file modes";
    let open = match data_dir::open_to_others(config) {
        Ok(open) => open,
        Err(error) => {
            let fix = "run doctor as the user that runs the server";
            return Check::warn(AREA, name, format!("cannot be looked at: {error}"), fix);
        }
    };
    let Some(first) = open.iter().find(|open| !open.can_be_tightened()).or(open.first()) else {
        return Check::ok(AREA, name, "only the owner can read the data");
    };
    let detail = format!(
        "other users can read {} (mode {:04o}){}",
        first.path.display(),
        first.mode,
        match open.len() {
            1 => String::new(),
            all => format!(" and {} more", all - 1),
        }
    );
    if first.can_be_tightened() {
        Check::warn(
            AREA,
            name,
            detail,
            format!("{}; the next start of the server does the same", first.fix()),
        )
    } else {
        Check::missing(AREA, name, detail, first.fix())
    }
}

/// Damaged mirrors of projects that were rebuilt and are kept aside, and what was lost in them.
fn mirrors(data_dir: &Path) -> Check {
    let name = "mirrors";
    let broken = match git::broken(data_dir) {
        Ok(broken) => broken,
        Err(error) => {
            let fix = "run doctor as the user that runs the server";
            return Check::warn(AREA, name, format!("cannot be looked at: {error}"), fix);
        }
    };
    if broken.is_empty() {
        return Check::ok(AREA, name, "no damaged mirror is kept aside");
    }
    let told = broken.iter().map(|(path, report)| match report {
        Some(report) if report.lost.is_empty() => format!("{} (nothing was lost)", path.display()),
        Some(report) => {
            let lost: Vec<&str> =
                report.lost.iter().take(LOST_SHOWN).map(|lost| lost.name.as_str()).collect();
            let more = report.lost.len() - lost.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{} (could not be saved as they were: {}{more})", path.display(), lost.join(", "))
        }
        None => format!("{} (without a report)", path.display()),
    });
    let detail =
        format!("damaged mirrors were rebuilt and are kept aside: {}", told.collect::<Vec<_>>().join("; "));
    Check::warn(AREA, name, detail, "look at what is in them and remove them; check the disk")
}

/// Sandboxes share it; each may fill as much as its own limit.
fn disk(path: &Path) -> Check {
    let name = "free disk";
    let fix = "free some space, or choose another disk with --data-dir";
    match nearest(path).and_then(|path| Room::of(&path).ok()) {
        Some(room) => judged(path, room.free_bytes, name, fix),
        None => Check::warn(AREA, name, format!("cannot be measured at {}", path.display()), fix)
            .needed_by(Need::Server),
    }
}

fn judged(path: &Path, free: u64, name: &'static str, fix: &str) -> Check {
    let at = format!("{} free at {}", size(free), path.display());
    let limit = |what: &str, bytes: u64| format!("{at}; {what} needs {}", size(bytes));
    match free {
        0..FREE_BYTES_MIN => {
            let full = format!("the disk is full: {}", limit("the server", FREE_BYTES_MIN));
            Check::missing(AREA, name, full, fix).needed_by(Need::Server)
        }
        FREE_BYTES_MIN..FREE_BYTES_SANDBOXES => {
            Check::missing(AREA, name, limit("a sandbox", FREE_BYTES_SANDBOXES), fix)
                .needed_by(Need::Sandboxes)
        }
        FREE_BYTES_SANDBOXES..FREE_BYTES_LOW => {
            let low = format!("{at}; less than {} is low", size(FREE_BYTES_LOW));
            Check::warn(AREA, name, low, fix).needed_by(Need::Sandboxes)
        }
        FREE_BYTES_LOW.. => Check::ok(AREA, name, at).needed_by(Need::Sandboxes),
    }
}

fn writable(path: &Path) -> Check {
    let name = DATA_DIR;
    let shown = path.display();
    let fix = "make it writable for this user, or choose another with --data-dir";
    match nearest(path) {
        Some(found) if path.is_dir() => match try_write(&found) {
            Ok(()) => Check::ok(AREA, name, format!("{shown} is writable")),
            Err(error) => Check::missing(AREA, name, format!("{shown} is not writable: {error}"), fix),
        },
        Some(parent) => match try_write(&parent) {
            Ok(()) => Check::ok(AREA, name, format!("{shown} is not there yet; the first start makes it")),
            Err(error) => Check::missing(
                AREA,
                name,
                format!("{shown} cannot be made in {}: {error}", parent.display()),
                fix,
            ),
        },
        None => Check::missing(AREA, name, format!("{shown} has no directory above it"), fix),
    }
}

/// The directory itself, or the first one above it that is there.
pub fn nearest(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(Path::new(".").join(path)).ok()?;
    path.ancestors().find(|path| path.is_dir()).map(Path::to_owned)
}

fn try_write(directory: &Path) -> io::Result<()> {
    let scratch = directory.join(scratch_name());
    fs::write(&scratch, "omoi")?;
    fs::remove_file(&scratch)
}

/// Opens a database of its own beside the real one, which is not touched: opening that would migrate it.
async fn sqlite(config: &Config) -> Check {
    let name = "SQLite";
    let Some(file) = Store::file(config) else { return Check::ok(AREA, name, "not used") };
    let fix = "choose a directory on a local disk with --data-dir";
    let opened = fs::OpenOptions::new().read(true).write(true).open(&file);
    let state = match opened.and_then(is_database) {
        Ok(true) => format!("{} is there", file.display()),
        Ok(false) => {
            let fix = "put the last backup in its place, or choose another directory with --data-dir";
            return Check::missing(AREA, name, format!("{} is no database", file.display()), fix);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("{} is not there yet; the first start makes it", file.display())
        }
        Err(error) => {
            let fix = "give this user the right to read and write it";
            return Check::missing(AREA, name, format!("{}: {error}", file.display()), fix);
        }
    };
    let Some(beside) = file.parent().and_then(nearest) else {
        return Check::missing(AREA, name, format!("{} has no directory", file.display()), fix);
    };
    match try_sqlite(config, &beside.join(format!("{}.d", scratch_name()))).await {
        Ok(()) => Check::ok(AREA, name, format!("opens in {}; {state}", beside.display())),
        Err(error) => {
            Check::missing(AREA, name, format!("does not open in {}: {error}", beside.display()), fix)
        }
    }
}

/// By how it begins; one that is still empty becomes a database.
fn is_database(file: fs::File) -> io::Result<bool> {
    const BEGINS: &[u8] = b"SQLite format 3\0";
    let mut begins = Vec::new();
    file.take(BEGINS.len() as u64).read_to_end(&mut begins)?;
    Ok(begins.is_empty() || begins == BEGINS)
}

async fn try_sqlite(config: &Config, scratch: &Path) -> anyhow::Result<()> {
    fs::create_dir(scratch)?;
    let mut config = config.clone();
    config.data_dir = scratch.to_owned();
    config.database.url = DatabaseUrl::DataDir;
    config.database.pool_size = 1;
    let tried = async { Store::open(&config, Clock::Real, Box::new(|_| {})).await?.ping().await };
    let tried = tried.await;
    remove_scratch(scratch).await?;
    Ok(tried?)
}

/// The store's threads end a moment after it and may still make or remove files, so this is tried again.
async fn remove_scratch(scratch: &Path) -> io::Result<()> {
    for _ in 1..REMOVALS_MAX {
        if fs::remove_dir_all(scratch).is_ok() {
            return Ok(());
        }
        tokio::time::sleep(REMOVE_AGAIN).await;
    }
    fs::remove_dir_all(scratch)
}

/// Whether something listens there. Logging in is left to `omoi db migrate`, which also changes the schema.
async fn postgres(url: &str) -> Check {
    let name = "PostgreSQL";
    let Some((host, port)) = host_port(url) else {
        return Check::warn(
            AREA,
            name,
            format!("{url}: no single host to try"),
            "try it with `omoi db migrate`",
        );
    };
    let address = format!("{host}:{port}");
    let resolve = {
        let host = host.clone();
        tokio::task::spawn_blocking(move || (host, port).to_socket_addrs().map(Iterator::collect::<Vec<_>>))
    };
    let tried = tokio::time::timeout(CONNECT_TIMEOUT, async {
        let addresses = resolve.await.map_err(io::Error::other)??;
        tokio::net::TcpStream::connect(addresses.as_slice()).await
    });
    let problem = match tried.await {
        Ok(Ok(_)) => {
            return Check::ok(AREA, name, format!("{address} answers; `omoi db migrate` also logs in"));
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
    };
    let fix = "start PostgreSQL, or correct database.url";
    Check::missing(AREA, name, format!("{address}: {problem}"), fix)
}

/// `None` for several hosts, and for one that is a directory with a socket.
fn host_port(url: &str) -> Option<(String, u16)> {
    let rest = url.strip_prefix("postgres://")?;
    let authority = rest.split(['/', '?']).next()?;
    let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
    if let Some(v6) = address.strip_prefix('[') {
        let (host, port) = v6.split_once(']')?;
        let port = port.strip_prefix(':').map_or(Some(POSTGRES_PORT), |port| port.parse().ok())?;
        return Some((host.to_owned(), port));
    }
    let (host, port) = match address.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (address, POSTGRES_PORT),
    };
    let single = !host.is_empty() && !host.contains([',', '%']) && !rest.contains("host=");
    single.then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn the_address_is_found_in_the_url() {
        for (url, expected) in [
            ("postgres://omoi:***@db:6432/omoi", Some(("db", 6432))),
            ("postgres://db", Some(("db", 5432))),
            ("postgres://omoi@db/omoi?sslmode=require", Some(("db", 5432))),
            ("postgres://[::1]:5433/omoi", Some(("::1", 5433))),
            ("postgres://[::1]/omoi", Some(("::1", 5432))),
            ("postgres://a:1,b:2/omoi", None),
            ("postgres:///omoi?host=/run/postgresql", None),
        ] {
            let expected = expected.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(host_port(url), expected, "{url}");
        }
    }

    #[tokio::test]
    async fn a_machine_where_data_can_be_kept_is_told_so_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config { data_dir: dir.path().join("not/yet"), ..Config::default() };
        for _ in 0..2 {
            assert_eq!(writable(&config.data_dir).level, Level::Ok);
            let check = sqlite(&config).await;
            assert_eq!(check.level, Level::Ok, "{}", check.detail);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
            config.data_dir = dir.path().to_owned();
        }
    }

    #[test]
    fn the_line_on_free_space_names_its_thresholds() {
        for (free, level, need, says) in [
            (0, Level::Missing, Need::Server, "the disk is full"),
            (FREE_BYTES_MIN, Level::Missing, Need::Sandboxes, "a sandbox needs 1.0 GiB"),
            (FREE_BYTES_SANDBOXES, Level::Warn, Need::Sandboxes, "less than 10.0 GiB is low"),
            (FREE_BYTES_LOW, Level::Ok, Need::Sandboxes, "10.0 GiB free at /srv/omoi"),
        ] {
            let check = judged(Path::new("/srv/omoi"), free, "free disk", "free some");
            assert_eq!((check.level, check.needed_by), (level, Some(need)), "{free}");
            assert!(check.detail.contains(says), "{}", check.detail);
        }
    }

    #[test]
    fn a_data_directory_that_others_can_read_is_named() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(modes(&config).level, Level::Ok);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let check = modes(&config);
        assert_eq!(check.level, Level::Warn);
        assert!(check.detail.contains("mode 0755"), "{}", check.detail);
        assert!(check.fix.unwrap().contains(&format!("chmod 700 {}", dir.path().display())));
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(modes(&config).level, Level::Missing);
    }

    #[test]
    fn a_damaged_mirror_that_is_kept_aside_is_named_with_what_was_lost() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(mirrors(dir.path()).level, Level::Ok);
        let aside = dir.path().join("mirrors/prj-1.broken-20260101T000000000Z");
        fs::create_dir_all(&aside).unwrap();
        fs::create_dir_all(dir.path().join("mirrors/prj-1.git")).unwrap();
        let report = serde_json::json!({
            "project_id": "prj-1", "at": "2026-01-01T00:00:00Z", "damage": "HEAD is missing", "saved": 3,
            "aside": "mirrors/prj-1.broken-20260101T000000000Z",
            "lost": [{ "name": "refs/heads/fix/1", "commit": null, "now": null }],
        });
        fs::write(aside.join("omoi-rebuilt.json"), report.to_string()).unwrap();
        let check = mirrors(dir.path());
        assert_eq!(check.level, Level::Warn);
        assert!(
            check.detail.contains("refs/heads/fix/1") && check.detail.contains("prj-1.broken-"),
            "{}",
            check.detail
        );
    }

    #[tokio::test]
    async fn a_place_that_takes_no_data_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let config = Config { data_dir: "/proc/omoi".into(), ..Config::default() };
        assert_eq!(writable(&config.data_dir).level, Level::Missing);
        assert_eq!(sqlite(&config).await.level, Level::Missing);
        assert_eq!(postgres("postgres://127.0.0.1:1/omoi").await.level, Level::Missing);
    }

    #[tokio::test]
    async fn a_file_that_is_no_database_is_not_taken_for_one() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
        let file = Store::file(&config).unwrap();
        for (content, level) in [
            ("", Level::Ok),
            ("SQLite format 3\0", Level::Ok),
            ("SQLite", Level::Missing),
            ("# a note\nof somebody", Level::Missing),
        ] {
            fs::write(&file, content).unwrap();
            let check = sqlite(&config).await;
            assert_eq!(check.level, level, "{content:?}: {}", check.detail);
            assert_eq!(fs::read_to_string(&file).unwrap(), content);
        }
    }
}
