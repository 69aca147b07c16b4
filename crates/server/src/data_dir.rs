//! The data directory: who may look into it. It holds the database, repositories and what sandboxes wrote, so only its
//! owner may, whatever the umask of the server and whoever made the directory. Its files have mode 0600, the directories
//! in it 0700; what is deeper is shut off by those. What others put there keeps its mode, and a directory of others is
//! refused.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::{config::Config, store::Store};

/// What others than the owner may do.
const OTHERS: u32 = 0o077;
/// Set on directories that belong to all users, such as `/tmp`.
const STICKY: u32 = 0o1000;
/// What Omoi makes in its data directory, besides the database's files.
const OWN: [&str; 11] = [
    "mirrors",
    "checkouts",
    "sandboxes",
    "images",
    "cache",
    "demo",
    "node",
    "keeper.lock",
    "audit.head",
    "omoi.yaml",
    // The root of a file system has it from the beginning.
    "lost+found",
];
/// These have no other meaning, so a directory that holds one of them is Omoi's.
const MARKS: [&str; 3] = ["omoi.db", "audit.head", "keeper.lock"];
/// How many entries an error names.
const NAMED_MAX: usize = 5;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the data directory {path} cannot be used: {source}")]
    Unusable { path: String, source: io::Error },
    #[error("{}", .0.describe())]
    Open(Open),
    #[error(
        "other users can read the directory {path}, and it holds entries that Omoi did not make ({entries}); if only Omoi \
         uses it, run: chmod 700 {path}; otherwise choose another directory with --data-dir", path = .path.display()
    )]
    Foreign { path: PathBuf, entries: String },
}

impl Error {
    pub fn unusable(path: &Path, source: io::Error) -> Self {
        Self::Unusable { path: path.display().to_string(), source }
    }
}

/// A file or directory that other users can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    pub path: PathBuf,
    pub mode: u32,
    /// The user that owns it.
    pub owner: u32,
    wanted: u32,
    /// The data directory itself and not an entry of it.
    is_whole: bool,
}

impl Open {
    /// What an administrator has to run.
    pub fn fix(&self) -> String {
        if self.is_shared() {
            return "all users share this directory; name one that only Omoi uses with --data-dir".to_owned();
        }
        format!("run as its owner or root: chmod {:o} {}", self.wanted, self.path.display())
    }

    pub fn describe(&self) -> String {
        let Self { path, mode, owner, .. } = self;
        format!(
            "other users can read {} (mode {mode:04o}, owned by user {owner}) and this user cannot change that; {}",
            path.display(),
            self.fix()
        )
    }

    /// Whether this user may and should tighten it.
    pub fn can_be_tightened(&self) -> bool {
        let own = rustix::process::geteuid();
        !self.is_shared() && (own.is_root() || own.as_raw() == self.owner)
    }

    fn is_shared(&self) -> bool {
        self.is_whole && self.mode & STICKY != 0
    }
}

/// Makes the data directory where there is none, and takes from others than its owner what they may do in one that is
/// there. Refuses one where that is not possible.
pub fn make(config: &Config) -> Result<(), Error> {
    let path = &config.data_dir;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| Error::unusable(path, source))?;
    for open in open_to_others(config).map_err(|source| Error::unusable(path, source))? {
        if !open.can_be_tightened() {
            return Err(Error::Open(open));
        }
        if open.is_whole {
            refuse_foreign(path)?;
        }
        match fs::set_permissions(&open.path, fs::Permissions::from_mode(open.wanted)) {
            Ok(()) => tracing::info!(
                "changed the mode of {} from {:04o} to {:04o}: other users could read it",
                open.path.display(),
                open.mode,
                open.wanted
            ),
            // A file of SQLite's may be gone by now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%error, "the mode of {} cannot be changed", open.path.display());
                return Err(Error::Open(open));
            }
        }
    }
    Ok(())
}

/// Refuses a directory that others use: a new mode would shut them out.
fn refuse_foreign(path: &Path) -> Result<(), Error> {
    let unusable = |source| Error::unusable(path, source);
    let mut foreign = Vec::new();
    for entry in fs::read_dir(path).map_err(unusable)? {
        let name = entry.map_err(unusable)?.file_name();
        if MARKS.iter().any(|mark| name == *mark) {
            return Ok(());
        }
        if !is_own(&name) {
            foreign.push(name.to_string_lossy().into_owned());
        }
    }
    if foreign.is_empty() {
        return Ok(());
    }
    foreign.sort_unstable();
    let more = foreign.len() > NAMED_MAX;
    foreign.truncate(NAMED_MAX);
    let entries = foreign.join(", ") + if more { ", …" } else { "" };
    Err(Error::Foreign { path: path.to_owned(), entries })
}

/// Whether Omoi makes an entry of this name in its data directory.
fn is_own(name: &OsStr) -> bool {
    OWN.iter().any(|own| name == *own)
        || [&b"omoi.db"[..], b"audit."].iter().any(|own| name.as_encoded_bytes().starts_with(own))
}

/// The data directory, what Omoi makes directly in it, and the database's files, as far as others than the owner may read, write
/// or enter them.
pub fn open_to_others(config: &Config) -> io::Result<Vec<Open>> {
    let mut found = Vec::new();
    if !config.data_dir.is_dir() {
        return Ok(found);
    }
    // It may be named by a link.
    let whole = if_open(&fs::canonicalize(&config.data_dir)?)?;
    found.extend(whole.map(|open| Open { is_whole: true, ..open }));
    for entry in fs::read_dir(&config.data_dir)? {
        let entry = entry?;
        if is_own(&entry.file_name()) {
            found.extend(if_open(&entry.path())?);
        }
    }
    // It may be elsewhere.
    for path in database_files(config) {
        if path.parent() != Some(&config.data_dir) {
            found.extend(if_open(&path)?);
        }
    }
    Ok(found)
}

fn database_files(config: &Config) -> Vec<PathBuf> {
    let Some(path) = Store::file(config) else { return Vec::new() };
    let beside = |ending: &str| {
        let mut name = path.clone().into_os_string();
        name.push(ending);
        PathBuf::from(name)
    };
    vec![beside(""), beside("-wal"), beside("-shm")]
}

/// Links, sockets and the like are left alone.
fn if_open(path: &Path) -> io::Result<Option<Open>> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    let mode = meta.mode() & 0o7777;
    if mode & OTHERS == 0 || !(meta.is_dir() || meta.is_file()) {
        return Ok(None);
    }
    let wanted = mode & 0o700 | if meta.is_dir() { 0o700 } else { 0o600 };
    Ok(Some(Open { path: path.to_owned(), mode, owner: meta.uid(), wanted, is_whole: false }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DatabaseUrl;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_that_others_could_read_is_tightened_with_all_that_is_directly_in_it() {
        let outside = tempfile::tempdir().unwrap();
        let dir = outside.path().join("data");
        let elsewhere = outside.path().join("elsewhere.db");
        fs::create_dir_all(dir.join("mirrors")).unwrap();
        for file in [dir.join("omoi.db"), dir.join("omoi.db-wal"), elsewhere.clone()] {
            fs::write(&file, "").unwrap();
            set(&file, 0o644);
        }
        std::os::unix::fs::symlink("/etc/passwd", dir.join("link")).unwrap();
        set(&dir, 0o755);
        set(&dir.join("mirrors"), 0o775);
        let mut config = Config { data_dir: dir.clone(), ..Config::default() };
        config.database.url = DatabaseUrl::Sqlite(elsewhere.clone());
        assert_eq!(open_to_others(&config).unwrap().len(), 5);
        make(&config).unwrap();
        assert_eq!(open_to_others(&config).unwrap(), []);
        let expected = [(dir.clone(), 0o700), (dir.join("mirrors"), 0o700), (dir.join("omoi.db"), 0o600)];
        for (path, wanted) in expected.into_iter().chain([(elsewhere, 0o600)]) {
            assert_eq!(mode(&path), wanted, "{}", path.display());
        }
        assert_eq!(mode(Path::new("/etc/passwd")), 0o644, "a link is not followed");
    }

    #[test]
    fn a_directory_that_all_users_share_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        set(dir.path(), 0o1777);
        let config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
        let refused = make(&config).unwrap_err().to_string();
        assert!(refused.contains("mode 1777") && refused.contains("--data-dir"), "{refused}");
        assert_eq!(mode(dir.path()), 0o1777);
    }

    #[test]
    fn what_others_have_put_there_keeps_its_mode_and_a_directory_of_others_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["home", "www", "images"] {
            fs::create_dir(at(name)).unwrap();
            set(&at(name), 0o755);
        }
        set(&at("images"), 0o1777);
        set(dir.path(), 0o755);
        let config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
        let refused = make(&config).unwrap_err().to_string();
        assert!(refused.contains("(home, www)") && refused.contains("chmod 700"), "{refused}");
        let modes = || ["home", "www", "images"].map(|name| mode(&at(name)));
        assert_eq!((mode(dir.path()), modes()), (0o755, [0o755, 0o755, 0o1777]));

        fs::write(at("omoi.db"), "").unwrap();
        make(&config).unwrap();
        assert_eq!((mode(dir.path()), modes()), (0o700, [0o755, 0o755, 0o700]), "it is Omoi's own");
    }

    #[test]
    fn an_empty_directory_is_tightened() {
        let dir = tempfile::tempdir().unwrap();
        set(dir.path(), 0o755);
        make(&Config { data_dir: dir.path().to_owned(), ..Config::default() }).unwrap();
        assert_eq!(mode(dir.path()), 0o700);
    }

    #[test]
    fn one_that_belongs_to_somebody_else_comes_with_the_command_to_run() {
        let open = Open { path: "/srv/omoi".into(), mode: 0o755, owner: 4242, wanted: 0o700, is_whole: true };
        let text = open.describe();
        assert!(text.contains("user 4242") && text.ends_with("chmod 700 /srv/omoi"), "{text}");
    }
}
