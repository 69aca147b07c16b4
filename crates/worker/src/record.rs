//! The record of the command, beside the spool: a worker that comes after one that was killed learns from it
//! what had begun, so that nothing runs twice.

use std::{
    fs,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::outbox::write_whole;

const NAME: &str = "command.json";
const BYTES_MAX: u64 = 4096;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub command_id: String,
    pub state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It may have been started or not.
    Starting,
    /// The leader of its group, and when that was started.
    Started { pid: i32, at: u64 },
    /// Everything there is to say of it is in the spool.
    Reported { code: u8 },
}

/// Where the record is.
#[derive(Debug, Clone)]
pub struct Records(PathBuf);

impl Records {
    pub fn of(spool: &Path) -> Self {
        Self(spool.to_owned())
    }

    pub fn write(&self, record: &Record) -> io::Result<()> {
        write_whole(&self.0, NAME, &serde_json::to_vec(record)?, true)
    }

    /// None when there is none, or none that can be understood.
    pub fn read(&self) -> Option<Record> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(self.0.join(NAME)).ok()?;
        let mut text = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}
