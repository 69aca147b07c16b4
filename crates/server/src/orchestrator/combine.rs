//! Combine: merges the work of a spec's tasks into one branch, in the order of work. A task that conflicts with what is in is
//! left out, and so is whatever builds on it; the rest goes in. Nothing is ever half merged.

use std::collections::BTreeSet;

use omoi_protocol::{
    MergeOutcome,
    project::Project,
    spec::{SpecConflict, SpecMerge},
};

use super::advance::Error;
use crate::{
    domain::commit::CommitId,
    git::{self, Merge, Mirrors},
    store::{self, BranchDue, BranchPart, Combined, Store},
};

/// With so many others a task that does not go in is compared.
const COMPARED_MAX: usize = 50;
const TITLE_CHARS_MAX: usize = 200;

/// Makes the branches that are wanted; says how many were dealt with.
pub async fn combine(store: &Store, mirrors: &Mirrors, limit: usize) -> Result<usize, store::Error> {
    let all = store.spec_branch_due(limit).await?;
    for due in &all {
        match make(store, mirrors, due).await {
            Ok(made) => store.spec_branch_made(due, made).await?,
            Err(error) => {
                tracing::warn!(spec.id = %due.spec_id, %error, "the branch of spec {} cannot be made", due.spec_id);
                let may_pass = if let Error::Git(error) = &error { error.may_pass() } else { true };
                store.spec_branch_failed(due, &error.to_string(), may_pass).await?;
            }
        }
    }
    Ok(all.len())
}

async fn make(store: &Store, mirrors: &Mirrors, due: &BranchDue) -> Result<Combined, Error> {
    let project = store.project_get(&due.project_id).await?;
    let base = mirrors.refresh(&project).await?;
    let mut whole = Whole {
        mirrors,
        project: &project,
        base: &base,
        tip: base.clone(),
        inside: Vec::new(),
        out: BTreeSet::new(),
    };
    let mut merges = Vec::with_capacity(due.parts.len());
    for part in &due.parts {
        merges.push(whole.take(part).await?);
    }
    let tip = whole.tip;
    if tip != base {
        mirrors.branch_set(&project, &due.name, &tip).await?;
    }
    Ok(Combined { base: base.to_string(), tip: tip.to_string(), merges })
}

/// What is merged so far.
struct Whole<'a> {
    mirrors: &'a Mirrors,
    project: &'a Project,
    base: &'a CommitId,
    tip: CommitId,
    inside: Vec<(String, CommitId)>,
    /// Symbols of those that are not in.
    out: BTreeSet<String>,
}

impl Whole<'_> {
    async fn take(&mut self, part: &BranchPart) -> Result<SpecMerge, git::Error> {
        let left =
            if part.completed { self.mirrors.left_by(&self.project.id, &part.work).await? } else { None };
        let without: Vec<String> =
            part.depends_on.iter().filter(|on| self.out.contains(*on)).cloned().collect();
        let (outcome, conflicts) = match &left {
            None => (MergeOutcome::Nothing, Vec::new()),
            Some(_) if !without.is_empty() => (MergeOutcome::LeftOut, Vec::new()),
            Some(commit) => self.merge(part, commit).await?,
        };
        if matches!(outcome, MergeOutcome::Conflict | MergeOutcome::LeftOut) {
            self.out.insert(part.symbol.clone());
        }
        Ok(SpecMerge {
            symbol: part.symbol.clone(),
            task_id: part.work.task.clone(),
            commit: left.map(|commit| commit.to_string()),
            outcome,
            conflicts,
            without,
        })
    }

    async fn merge(
        &mut self,
        part: &BranchPart,
        commit: &CommitId,
    ) -> Result<(MergeOutcome, Vec<SpecConflict>), git::Error> {
        let project = &self.project.id;
        if self.mirrors.is_ancestor(project, commit, &self.tip).await? {
            self.inside.push((part.symbol.clone(), commit.clone()));
            return Ok((MergeOutcome::Contained, Vec::new()));
        }
        let title: String = part.title.chars().filter(|c| !c.is_control()).take(TITLE_CHARS_MAX).collect();
        let message = format!("Merge {}: {title}", part.symbol);
        match self.mirrors.merge(project, &self.tip, commit, &message).await? {
            Merge::Merged(both) => {
                self.tip = both;
                self.inside.push((part.symbol.clone(), commit.clone()));
                Ok((MergeOutcome::Merged, Vec::new()))
            }
            Merge::Conflict(files) => Ok((MergeOutcome::Conflict, self.conflicts(commit, files).await?)),
        }
    }

    /// Whom of those that are in a commit conflicts with, each with its files.
    async fn conflicts(
        &self,
        commit: &CommitId,
        files: Vec<String>,
    ) -> Result<Vec<SpecConflict>, git::Error> {
        let mut found = Vec::new();
        let others = self.inside.iter().rev().take(COMPARED_MAX).rev();
        let others = others.map(|(symbol, other)| (Some(symbol.clone()), other));
        for (with, other) in [(None, self.base)].into_iter().chain(others) {
            if let Merge::Conflict(files) = self.mirrors.merge(&self.project.id, other, commit, "Try").await?
            {
                found.push(SpecConflict { with, files });
            }
        }
        if found.is_empty() {
            found.push(SpecConflict { with: None, files });
        }
        Ok(found)
    }
}
