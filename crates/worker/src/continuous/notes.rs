//! The notes that an agent writes for its next iteration. They are for itself: no commit holds them.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use crate::{agent::tool::NOTES_FILE, git::Git};

const BYTES_MAX: u64 = 32 * 1024;

/// What they say, the last of it where that is much. None when there are none.
pub fn read(workspace: &Path) -> Option<String> {
    // A link may lead anywhere, and what is no file may never end.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(workspace.join(NOTES_FILE)).ok()?;
    let text = last_of(file).ok()??;
    (!text.trim().is_empty()).then_some(text)
}

/// Lets Git pass over them, whoever commits.
pub async fn exclude(git: &Git) -> Result<(), String> {
    let path =
        git.text(&["rev-parse", "--git-path", "info/exclude"]).await.map_err(|error| error.to_string())?;
    add(&git.dir.join(PathBuf::from(path))).map_err(|error| error.to_string())
}

fn last_of(mut file: File) -> io::Result<Option<String>> {
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Ok(None);
    }
    let skipped = meta.len().saturating_sub(BYTES_MAX);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(Some(match skipped {
        0 => text.into_owned(),
        skipped => format!("({skipped} bytes at the beginning are left out)\n{text}"),
    }))
}

fn add(path: &Path) -> io::Result<()> {
    let line = format!("/{NOTES_FILE}");
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    if text.lines().any(|one| one == line) {
        return Ok(());
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let before = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{before}{line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_from_a_file_alone_and_only_so_much_of_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NOTES_FILE);
        assert_eq!(read(dir.path()), None);
        fs::write(&path, " \n").unwrap();
        assert_eq!(read(dir.path()), None);
        fs::write(&path, "half done").unwrap();
        assert_eq!(read(dir.path()).as_deref(), Some("half done"));
        fs::write(&path, format!("old{}new", "x".repeat(BYTES_MAX as usize))).unwrap();
        let text = read(dir.path()).unwrap();
        assert!(text.starts_with("(6 bytes") && text.ends_with("xnew"), "{}", &text[..60]);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert_eq!(read(dir.path()), None);
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(read(dir.path()), None);
    }

    #[test]
    fn they_are_excluded_once_and_what_was_excluded_stays_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("info/exclude");
        add(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "/ITERATION_NOTES.md\n");
        fs::write(&path, "*.o").unwrap();
        add(&path).unwrap();
        add(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "*.o\n/ITERATION_NOTES.md\n");
    }
}
