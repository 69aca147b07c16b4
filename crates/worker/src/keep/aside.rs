//! Files that Git refuses under their names, or takes under none that a checkout could make: they are set aside, in a commit
//! of their own beside the work, under numbers, with an index that says where each was. So no later attempt finds them among
//! its files.

use std::collections::BTreeMap;

use omoi_protocol::sandbox::AsideFile;
use tokio::io::AsyncWriteExt;

use super::{
    Error,
    bare::Bare,
    commit::{Entries, Entry},
    import::quoted,
    left::{LISTED_MAX, shortened, show},
};
use crate::git::Feed;

/// A file that is set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aside {
    pub entry: Entry,
    pub reason: String,
}

pub type Asides = BTreeMap<Vec<u8>, Aside>;

pub const INDEX: &str = "INDEX";
/// From there on, the index has the ends of a long path alone.
const INDEX_BYTES_MAX: usize = 32 << 20;

/// The first of them, for people.
pub fn listed(asides: &Asides) -> Vec<AsideFile> {
    let one = |(n, (path, aside)): (usize, (&Vec<u8>, &Aside))| AsideFile {
        file: number(n),
        path: show(path),
        reason: shortened(&aside.reason),
    };
    asides.iter().enumerate().take(LISTED_MAX).map(one).collect()
}

fn number(n: usize) -> String {
    format!("{:06}", n + 1)
}

/// Where a file was, for the index.
fn line(n: usize, path: &[u8], aside: &Aside, is_short: bool) -> String {
    let mut line = serde_json::json!({ "file": number(n), "mode": aside.entry.mode, "reason": aside.reason });
    if is_short {
        line["path"] = show(path).into();
        line["reason"] = shortened(&aside.reason).into();
    } else {
        line["path"] = String::from_utf8_lossy(path).into();
        // Every byte of it, as Git writes a path.
        line["quoted"] = String::from_utf8_lossy(&quoted(path)).into();
    }
    format!("{line}\n")
}

/// The entries of the commit, and the new name of each path.
pub async fn entries(bare: &Bare, asides: &Asides) -> Result<(Entries, BTreeMap<Vec<u8>, Vec<u8>>), Error> {
    let (mut entries, mut names) = (Entries::new(), BTreeMap::new());
    for (n, (path, aside)) in asides.iter().enumerate() {
        let name = number(n);
        // A link is kept as the text of where it leads.
        let entry = Entry { mode: "100644".to_owned(), id: aside.entry.id.clone() };
        entries.insert(name.clone().into_bytes(), entry);
        names.insert(path.clone(), name.into_bytes());
    }
    let feed = async |feed: &mut Feed| {
        let mut bytes = 0;
        for (n, (path, aside)) in asides.iter().enumerate() {
            let line = line(n, path, aside, bytes > INDEX_BYTES_MAX);
            bytes += line.len();
            feed.write_all(line.as_bytes()).await?;
        }
        Ok(())
    };
    let id = bare.git().feed(&["hash-object", "-w", "--stdin", "--no-filters"], feed).await?;
    let id = String::from_utf8_lossy(&id).trim().to_owned();
    entries.insert(INDEX.as_bytes().to_owned(), Entry { mode: "100644".to_owned(), id });
    Ok((entries, names))
}
