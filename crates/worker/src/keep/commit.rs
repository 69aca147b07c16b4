//! A commit that is written entry by entry from objects that are there, with smaller ones on the way to it where one push
//! cannot bring it all.

use std::{collections::BTreeMap, io};

use tokio::io::AsyncWriteExt;

use super::{Error, bare::Bare, import::quoted};
use crate::{git::Feed, report::now};

pub const GITLINK: &str = "160000";

/// What is under a path of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub mode: String,
    pub id: String,
}

pub type Entries = BTreeMap<Vec<u8>, Entry>;

pub struct Commit<'a> {
    /// Its ref.
    pub name: &'a str,
    pub message: &'a str,
    pub parent: Option<&'a str>,
    /// Tips of other branches, which become reachable with it.
    pub others: &'a [String],
    /// Shares of the entries that are pushed before the whole, one after the other.
    pub shares: Vec<Vec<&'a [u8]>>,
    pub entries: &'a Entries,
}

impl Commit<'_> {
    /// The new commits in the order in which they are to be pushed; the whole one is the last.
    pub async fn write(&self, bare: &Bare) -> Result<Vec<String>, Error> {
        let shares: Vec<String> =
            (0..self.shares.len()).map(|n| format!("refs/omoi/share/{n}/{}", self.name)).collect();
        let feed = async |feed: &mut Feed| {
            let (mut before, mut others) = (self.parent, self.others);
            for (name, share) in shares.iter().zip(&self.shares) {
                self.head(feed, name, before, others).await?;
                others = &[];
                for path in share {
                    entry(feed, path, &self.entries[*path]).await?;
                }
                before = Some(name);
            }
            // On top of what is pushed before: of commits beside it, Git would send everything again.
            self.head(feed, self.name, before, others).await?;
            feed.write_all(b"deleteall\n").await?;
            for (path, it) in self.entries {
                entry(feed, path, it).await?;
            }
            feed.write_all(b"done\n").await
        };
        bare.git().feed(&["fast-import", "--quiet", "--force", "--done", "--date-format=raw"], feed).await?;
        let mut made = Vec::new();
        for name in shares.iter().map(String::as_str).chain([self.name]) {
            made.push(bare.git().text(&["rev-parse", "--verify", name]).await?);
        }
        Ok(made)
    }

    async fn head(
        &self,
        feed: &mut Feed,
        name: &str,
        parent: Option<&str>,
        others: &[String],
    ) -> io::Result<()> {
        let mut head = format!(
            "commit {name}\ncommitter Omoi <sandbox@omoi.invalid> {} +0000\ndata {}\n{}",
            now().as_second(),
            self.message.len(),
            self.message,
        );
        if let Some(parent) = parent {
            head += &format!("from {parent}\n");
        }
        for other in others {
            head += &format!("merge {other}\n");
        }
        feed.write_all(head.as_bytes()).await
    }
}

async fn entry(feed: &mut Feed, path: &[u8], Entry { mode, id }: &Entry) -> io::Result<()> {
    feed.write_all(format!("M {mode} {id} ").as_bytes()).await?;
    feed.write_all(&[quoted(path), b"\n".to_vec()].concat()).await
}
