//! `omoi audit`: who did what, and whether the record of it was changed or cut off.

use anyhow::Result;
use omoi_protocol::token::{AuditEntry, AuditHead, AuditVerdict};
use omoi_server::{clock::Clock, store::AuditFilter};

use crate::{
    Context,
    connect::Connect,
    database,
    failure::{FAILED, Stop, USAGE},
    page::{Limit, collect},
    settings::Settings,
    table::{Table, number},
    text::relative,
};

/// Who the trail names for what a command does on the database itself.
const ACTOR: &str = "command line";

const EXAMPLES: &str = "\
Examples:
  omoi audit verify --data-dir /srv/omoi     on the database; exit code 1 when the trail was changed or cut off
  omoi audit export --head > /safe/head      keep this where nobody who administers the server can write
  omoi audit verify --head /safe/head        the trail must still hold that entry
  omoi audit list --limit 20                 from the server; takes an admin's token";

/// Read the audit trail, or check that it was not changed
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Follow the chain of hashes from the first entry to the last that was recorded; works on the database directly
    Verify {
        /// A head that was exported earlier: its file, or COUNT:HASH
        #[arg(long, value_name = "FILE|COUNT:HASH")]
        head: Option<String>,
        #[command(flatten)]
        settings: Settings,
    },
    /// Print all entries as lines of JSON, oldest first; works on the database directly
    Export {
        /// Print only the number and the hash of the last entry, for `verify --head`
        #[arg(long)]
        head: bool,
        #[command(flatten)]
        settings: Settings,
    },
    /// Go on with a trail that is shorter than recorded, after a backup was restored; an entry says so
    Accept {
        #[command(flatten)]
        settings: Settings,
    },
    /// List who did what, newest first; asks the server
    List {
        #[command(flatten)]
        limit: Limit,
        #[command(flatten)]
        connect: Connect,
    },
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        match self.verb {
            Verb::Verify { head, settings } => verify(cx, head.as_deref(), &settings).await,
            Verb::Export { head, settings } => export(cx, head, &settings).await,
            Verb::Accept { settings } => accept(cx, &settings).await,
            Verb::List { limit, connect } => {
                let client = connect.client()?;
                let fetch =
                    async |size, cursor: Option<String>| client.audit_list(size, cursor.as_deref()).await;
                let page = collect(limit.get(), fetch).await?;
                cx.out.answer(&page, |style| {
                    let header = ["n", "when", "who", "did", "to", "detail"];
                    page.items.iter().fold(Table::new(style, &header), row).render()
                })?;
                limit.tell(cx, &page);
                Ok(())
            }
        }
    }
}

async fn verify(cx: &Context, head: Option<&str>, settings: &Settings) -> Result<()> {
    let kept = head.map(read_head).transpose()?;
    let store = database::open_to_read(settings.resolve(cx)?.config).await?;
    let verdict = store.audit_verify(kept).await?;
    cx.out.outlast_reader();
    cx.out.answer(&verdict, |_| in_words(&verdict))?;
    let (what, hint) = match (&verdict.broken_at, &verdict.cut_off) {
        (None, None) => return Ok(()),
        (Some(n), _) => (
            format!("the audit trail was changed at entry {n}"),
            "compare it with a backup: entries before this one can be trusted",
        ),
        (None, Some(_)) => (
            "the audit trail does not hold the last entry that was recorded".to_owned(),
            "if you restored an older backup, that is the cause: `omoi audit accept` goes on from there; otherwise somebody \
             deleted entries: compare the trail with a backup",
        ),
    };
    Err(Stop::new(FAILED, what).hint(hint).into())
}

fn in_words(verdict: &AuditVerdict) -> String {
    let AuditVerdict { entries, broken_at, cut_off } = verdict;
    match (broken_at, cut_off) {
        (None, None) => format!("Audit log verified: {entries} entries, unaltered"),
        (Some(n), _) => {
            format!("Audit log is altered: the first {entries} entries are unaltered, entry {n} is not")
        }
        (None, Some(head)) => {
            let at = head.recorded_at.map(|at| format!(" at {at}")).unwrap_or_default();
            let last = head.entries;
            if last > *entries {
                format!("Audit log is cut off: {entries} entries, but entry {last} was recorded{at}")
            } else {
                format!("Audit log was rewritten: entry {last} is not the one that was recorded{at}")
            }
        }
    }
}

/// A head as `export --head` prints it, in a file or on the command line.
fn read_head(given: &str) -> Result<AuditHead> {
    if let Some(head) = parse_head(given) {
        return Ok(head);
    }
    let text = std::fs::read_to_string(given).map_err(|error| {
        Stop::new(USAGE, format!("--head {given}: {error}"))
            .hint("name a file that `omoi audit export --head` has written, or give COUNT:HASH")
    })?;
    let parsed = parse_head(text.trim()).or_else(|| serde_json::from_str(&text).ok());
    Ok(parsed.ok_or_else(|| {
        Stop::new(USAGE, format!("--head {given}: the file holds no head"))
            .hint("write one with `omoi audit export --head > FILE`")
    })?)
}

fn parse_head(text: &str) -> Option<AuditHead> {
    let (entries, hash) = text.split_once(':')?;
    let entries = entries.parse().ok().filter(|entries| *entries >= 0)?;
    let is_hash = hash.bytes().all(|byte| byte.is_ascii_hexdigit()) && (hash.len() == 64 || entries == 0);
    is_hash.then(|| AuditHead { entries, hash: hash.to_ascii_lowercase(), recorded_at: None })
}

async fn export(cx: &Context, head: bool, settings: &Settings) -> Result<()> {
    const PAGE: usize = 500;
    let store = database::open_to_read(settings.resolve(cx)?.config).await?;
    if head {
        let head = store.audit_head().await?;
        return cx.out.answer(&head, |_| format!("{}:{}", head.entries, head.hash));
    }
    let last = store.audit_head().await?.entries;
    let mut from = 0;
    while from < last {
        // The list runs from new to old, so the oldest come first by asking for those before a number.
        let until = last.min(from + PAGE as i64);
        let size = usize::try_from(until - from)?;
        let page = store.audit_list(AuditFilter::default(), Some(until + 1), size).await?;
        for entry in page.iter().rev().filter(|entry| entry.n > from) {
            cx.out.item(entry, |_| serde_json::to_string(entry).unwrap_or_default())?;
        }
        from = until;
    }
    Ok(())
}

async fn accept(cx: &Context, settings: &Settings) -> Result<()> {
    let store = database::open(settings.resolve(cx)?.config).await?;
    let head = store.audit_accept(ACTOR).await?;
    cx.out.answer(&head, |_| format!("the audit trail goes on from entry {}, which says so", head.entries))
}

fn row(table: Table, entry: &AuditEntry) -> Table {
    table.row([
        number(&entry.n),
        relative(Clock::Real.now(), entry.at).into(),
        entry.actor.as_str().into(),
        entry.action.as_str().into(),
        format!("{} {}", entry.entity_type, entry.entity_id).into(),
        entry.detail.to_string().into(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_told_in_plain_words() {
        let head = |entries| AuditHead {
            entries,
            hash: "ff".to_owned(),
            recorded_at: Some("2026-01-01T00:00:00Z".parse().unwrap()),
        };
        for (entries, broken_at, cut_off, words) in [
            (87, None, None, "Audit log verified: 87 entries, unaltered"),
            (4, Some(5), None, "Audit log is altered: the first 4 entries are unaltered, entry 5 is not"),
            (
                37,
                None,
                Some(head(87)),
                "Audit log is cut off: 37 entries, but entry 87 was recorded at 2026-01-01T00:00:00Z",
            ),
            (
                90,
                None,
                Some(head(87)),
                "Audit log was rewritten: entry 87 is not the one that was recorded at 2026-01-01T00:00:00Z",
            ),
        ] {
            assert_eq!(in_words(&AuditVerdict { entries, broken_at, cut_off }), words);
        }
    }

    #[test]
    fn a_head_is_read_from_the_command_line_or_from_a_file() {
        let hash = "0a".repeat(32);
        let expected = AuditHead { entries: 87, hash: hash.clone(), recorded_at: None };
        assert_eq!(read_head(&format!("87:{hash}")).unwrap(), expected);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("head");
        for text in [format!("87:{hash}\n"), serde_json::to_string(&expected).unwrap()] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read_head(file.to_str().unwrap()).unwrap(), expected);
        }
        for wrong in ["87:short", "-1:", "nowhere"] {
            assert!(read_head(wrong).is_err(), "{wrong}");
        }
    }
}
