//! Images that a team brings: unpacked directories below `images/` in the data directory.

use std::path::{Path, PathBuf};

use super::Error;

#[derive(Debug, Clone)]
pub struct Images {
    dir: PathBuf,
}

impl Images {
    pub fn new(data_dir: &Path) -> Self {
        Self { dir: data_dir.join("images") }
    }

    /// Where an image of this name is unpacked.
    pub fn path(&self, name: &str) -> Result<PathBuf, Error> {
        let wrong = |detail: &str| Error::Image { name: name.to_owned(), detail: detail.to_owned() };
        if !is_name(name) {
            return Err(wrong(
                "a name has letters, digits, '-', '_' and '.', and starts with a letter or digit",
            ));
        }
        let path = self.dir.join(name).join("root");
        if path.is_dir() {
            Ok(path)
        } else {
            Err(wrong("is not here; see `omoi image list` and `omoi image import`"))
        }
    }
}

pub fn is_name(name: &str) -> bool {
    name.len() <= 100
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}
