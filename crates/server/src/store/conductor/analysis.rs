//! What the Conductor made of it all, look by look. Two days of it are kept.

use std::{collections::HashMap, time::Duration};

use omoi_protocol::{
    AnalysisId, ProjectId,
    conductor::{Analysis, ConductorStatus},
};

use super::{
    super::{
        Ask, Error, Store,
        guardian::JUDGED,
        value::{Row, params},
    },
    duplicate::OPEN_COUNT,
};
use crate::{
    config,
    domain::{coherence::amend, supervision::health},
};

/// How many conflicts are open.
#[derive(Debug, Clone, Default)]
pub struct OpenConflicts {
    pub by_sandbox: HashMap<String, usize>,
    pub by_project: HashMap<ProjectId, usize>,
}

const KEPT: Duration = Duration::from_secs(48 * 3600);
/// Projects that the status names.
const PROJECTS_MAX: usize = 200;

impl Store {
    pub async fn analysis_keep(&self, analyses: Vec<Analysis>) -> Result<(), Error> {
        self.write(async move |tx| {
            for analysis in &analyses {
                let body = serde_json::to_string(analysis).unwrap_or_default();
                let sql = "INSERT INTO conductor_analyses (id, project_id, at, body) VALUES ($1, $2, $3, $4)";
                tx.execute(sql, params![&analysis.id, analysis.project_id.as_ref(), analysis.at, body])
                    .await?;
            }
            tx.execute("DELETE FROM conductor_analyses WHERE at < $1", params![tx.now - KEPT]).await
        })
        .await
    }

    /// Newest first: of a project, or of all together.
    pub async fn analysis_list(
        &self,
        project: Option<ProjectId>,
        before: Option<AnalysisId>,
        limit: usize,
    ) -> Result<Vec<Analysis>, Error> {
        self.read(async move |tx| {
            let mut ask = Ask::new("SELECT body FROM conductor_analyses");
            match &project {
                Some(id) => ask.and_some("project_id =", Some(id)),
                None => ask.raw("project_id IS NULL"),
            }
            ask.and_some("id <", before.as_ref());
            let (sql, values) = ask.order_limit("id DESC", limit);
            tx.query(&sql, values).await?.iter().map(|row| row.json("body")).collect()
        })
        .await
    }

    pub async fn conductor_status(&self, settings: &config::Conductor) -> Result<ConductorStatus, Error> {
        let settings = settings.clone();
        let last_analysis = self.analysis_list(None, None, 1).await?.into_iter().next();
        self.read(async move |tx| {
            // Those of the newest look alone: a project where nothing is under way is not part of it.
            let at = last_analysis.as_ref().map(|analysis| analysis.at);
            let sql = "SELECT body FROM conductor_analyses WHERE at = $1 AND project_id IS NOT NULL ORDER BY id LIMIT $2";
            let rows = tx.query(sql, params![at, PROJECTS_MAX]).await?;
            let mut projects =
                rows.iter().map(|row| row.json("body")).collect::<Result<Vec<Analysis>, _>>()?;
            let sql =
                "SELECT project_id, count(*) AS open FROM conflicts WHERE cleared_at IS NULL GROUP BY project_id";
            let mut by_project: HashMap<ProjectId, u32> = HashMap::new();
            for row in tx.query(sql, params![]).await? {
                let open: i64 = row.get("open")?;
                by_project.insert(row.parse("project_id")?, u32::try_from(open).unwrap_or(u32::MAX));
            }
            let of = |analysis: &Analysis| by_project.get(analysis.project_id.as_ref()?).copied();
            projects.iter_mut().for_each(|analysis| amend(analysis, of(analysis).unwrap_or(0)));
            let mut last_analysis = last_analysis.clone();
            let open = by_project.values().copied().fold(0, u32::saturating_add);
            last_analysis.iter_mut().for_each(|analysis| amend(analysis, open));
            let sql = format!("SELECT ({OPEN_COUNT}) AS duplicates");
            let row = tx.query_one(&sql, params![]).await?;
            let duplicates: i64 = row.map_or(Ok(0), |row| row.get("duplicates"))?;
            Ok(ConductorStatus {
                enabled: settings.enabled,
                period_seconds: settings.period.as_secs(),
                on_conflict: match settings.on_conflict {
                    config::OnConflict::Note => "note".to_owned(),
                    config::OnConflict::Tell => "tell".to_owned(),
                },
                last_analysis,
                projects,
                open_conflicts: open,
                open_duplicates: u32::try_from(duplicates).unwrap_or(u32::MAX),
            })
        })
        .await
    }

    /// How well sandboxes keep to their goals, by what the Guardian found and the judge said; those of which nothing is
    /// known are not in it.
    pub async fn alignments(&self) -> Result<HashMap<String, f64>, Error> {
        self.read(async |tx| {
            let sql = "SELECT sandbox_id, CAST(sum(weight) AS BIGINT) AS weights FROM findings WHERE cleared_at IS NULL \
                       GROUP BY sandbox_id";
            let rows = tx.query(sql, params![]).await?;
            let one = |row: &Row| Ok((row.get("sandbox_id")?, row.get("weights")?));
            let weights: HashMap<String, i64> = rows.iter().map(one).collect::<Result<_, Error>>()?;
            let rows = tx.query(JUDGED, params![]).await?;
            let one = |row: &Row| Ok((row.get("id")?, row.get("judged")?));
            let judged: HashMap<String, f64> = rows.iter().map(one).collect::<Result<_, Error>>()?;
            let all = weights.keys().chain(judged.keys());
            let one = |id: &String| {
                let weights = weights.get(id).copied().unwrap_or(0);
                (id.clone(), health::alignment(weights, judged.get(id).copied()))
            };
            Ok(all.map(one).collect())
        })
        .await
    }

    /// How many conflicts are open, by sandbox and by project.
    pub async fn conflict_counts(&self) -> Result<OpenConflicts, Error> {
        self.read(async |tx| {
            let sql =
                "SELECT project_id, sandbox_id, other_id FROM conflicts WHERE cleared_at IS NULL LIMIT 10000";
            let mut counts = OpenConflicts::default();
            for row in tx.query(sql, params![]).await? {
                for column in ["sandbox_id", "other_id"] {
                    *counts.by_sandbox.entry(row.get(column)?).or_insert(0) += 1;
                }
                *counts.by_project.entry(row.parse("project_id")?).or_insert(0) += 1;
            }
            Ok(counts)
        })
        .await
    }
}
