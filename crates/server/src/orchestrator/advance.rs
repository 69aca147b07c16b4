//! Advance: judges what phases of specs have handed in, has their work merged, and ends specs whose tasks have ended. Judging
//! needs the files of the project at the commit that the phase looked at, which its mirror has.

use omoi_protocol::spec::shape;

use super::{combine, node::Node};
use crate::{
    domain::{commit::CommitId, spec::Known},
    git::{self, Mirrors},
    store::{self, Due, Handed, Judged, Judgement, Store},
};

/// How many phases, and how many specs, one tick takes.
const LIMIT: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Git(#[from] git::Error),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub judged: usize,
    pub combined: usize,
    pub ended: usize,
}

#[derive(Clone)]
pub struct Advance {
    pub store: Store,
    pub node: Node,
    pub mirrors: Mirrors,
}

impl Advance {
    pub async fn tick(&self) -> Result<Report, store::Error> {
        if !self.node.is_keeper() {
            return Ok(Report::default());
        }
        advance(&self.store, &self.mirrors).await
    }
}

/// Judges whatever is due. One that cannot be judged now is looked at again, and holds up no other.
pub async fn advance(store: &Store, mirrors: &Mirrors) -> Result<Report, store::Error> {
    let mut report = Report::default();
    for due in store.spec_due(LIMIT).await? {
        match judge_and_keep(store, mirrors, &due).await {
            Ok(judged) => report.judged += usize::from(judged),
            Err(error) => {
                tracing::warn!(spec.id = %due.spec_id, %error, "the phase {} of spec {} cannot be judged", due.phase, due.spec_id);
            }
        }
    }
    // A spec whose tasks are all completed wants its branch first, and ends once that is there.
    report.ended = store.spec_settle(LIMIT).await?;
    report.combined = combine::combine(store, mirrors, LIMIT).await?;
    if report.combined > 0 {
        report.ended += store.spec_settle(LIMIT).await?;
    }
    Ok(report)
}

async fn judge_and_keep(store: &Store, mirrors: &Mirrors, due: &Due) -> Result<bool, Error> {
    let judgement = judge(store, mirrors, due).await?;
    Ok(store.spec_judge(due, judgement).await?)
}

async fn judge(store: &Store, mirrors: &Mirrors, due: &Due) -> Result<Judgement, Error> {
    let text = match &due.handed {
        Handed::Failed(why) => return Ok(Judgement::Failed(why.clone())),
        Handed::Nothing => {
            let why = "its sandbox handed in no output; write it to the file that is named";
            return Ok(Judgement::Judged(Box::new(Judged::refused(why))));
        }
        Handed::Output(text) => text,
    };
    let named = due.commit.as_ref().and_then(|commit| commit.parse::<CommitId>().ok());
    let commit = match named {
        Some(commit) => commit,
        // A person wrote it: it is held against what is there now.
        None => mirrors.refresh(&store.project_get(&due.project_id).await?).await?,
    };
    let files = mirrors.files(&due.project_id, &commit).await?;
    let (due, text) = (due.clone(), text.clone());
    // A large output takes a while to judge, and other tasks of this thread would wait for it.
    let judged = tokio::task::spawn_blocking(move || {
        let output = match shape(due.phase, &text) {
            Ok(output) => output,
            Err(error) => return Judged::refused(&error.to_string()),
        };
        let known = Known { earlier: &due.earlier, files: &files };
        Judged::of(due.flow, due.phase, output, commit.as_str(), &known)
    });
    let judged = judged.await.unwrap_or_else(|_| Judged::refused("it cannot be judged; write it anew"));
    Ok(Judgement::Judged(Box::new(judged)))
}
