//! A walk through files, as long as it may last. What Git ignores is passed over, and so is what Git keeps.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use ignore::{Walk, WalkBuilder, overrides::Override, types::Types};
use tokio::sync::watch;

/// Of one walk, or one big file.
pub const TIME_MAX: Duration = Duration::from_secs(10);
/// Directories that are passed over, wherever a walk begins.
const SKIPPED: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Why something ended before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    Stopped,
    Late,
}

/// What blocking work asks now and then.
#[derive(Debug, Clone)]
pub struct Halt {
    stop: watch::Receiver<bool>,
    until: Instant,
}

impl Halt {
    pub fn new(stop: watch::Receiver<bool>, limit: Duration) -> Self {
        Self { stop, until: Instant::now() + limit }
    }

    pub fn cut(&self) -> Option<Cut> {
        match () {
            () if *self.stop.borrow() => Some(Cut::Stopped),
            () if Instant::now() >= self.until => Some(Cut::Late),
            () => None,
        }
    }
}

/// Files below `base`, in the order of their names. Links are not followed.
pub fn walk(base: &Path, only: Override, types: Types) -> Walk {
    let mut builder = WalkBuilder::new(base);
    builder.hidden(false).git_global(false).require_git(false).follow_links(false);
    builder.overrides(only).types(types).sort_by_file_name(Ord::cmp);
    builder.filter_entry(|entry| {
        entry.file_name() != ".git" && !SKIPPED.iter().any(|skipped| entry.path() == Path::new(skipped))
    });
    builder.build()
}

/// A sentence for the model about what is missing.
pub fn cut_note(cut: Cut) -> String {
    match cut {
        Cut::Stopped => "(stopped; there may be more)".to_owned(),
        Cut::Late => {
            let seconds = TIME_MAX.as_secs();
            format!("(cut after {seconds} s; there may be more: give a narrower path or pattern)")
        }
    }
}
