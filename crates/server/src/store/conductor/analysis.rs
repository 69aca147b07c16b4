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
use crate::{config, domain::supervision::health};

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
            let projects = rows.iter().map(|row| row.json("body")).collect::<Result<Vec<Analysis>, _>>()?;
            let sql = format!(
                "SELECT (SELECT count(*) FROM conflicts WHERE cleared_at IS NULL) AS conflicts, \
                 ({OPEN_COUNT}) AS duplicates"
            );
            let row = tx.query_one(&sql, params![]).await?;
            let count = |name: &str| {
                let found: i64 = row.as_ref().map_or(Ok(0), |row| row.get(name))?;
                Ok::<_, Error>(u32::try_from(found).unwrap_or(u32::MAX))
            };
            Ok(ConductorStatus {
                enabled: settings.enabled,
                period_seconds: settings.period.as_secs(),
                on_conflict: match settings.on_conflict {
                    config::OnConflict::Note => "note".to_owned(),
                    config::OnConflict::Tell => "tell".to_owned(),
                },
                last_analysis: last_analysis.clone(),
                projects,
                open_conflicts: count("conflicts")?,
                open_duplicates: count("duplicates")?,
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

    /// For each sandbox that lives: how many open conflicts it is part of.
    pub async fn conflict_counts(&self) -> Result<HashMap<String, usize>, Error> {
        self.read(async |tx| {
            let sql = "SELECT sandbox_id, other_id FROM conflicts WHERE cleared_at IS NULL LIMIT 10000";
            let mut counts = HashMap::new();
            for row in tx.query(sql, params![]).await? {
                for column in ["sandbox_id", "other_id"] {
                    *counts.entry(row.get::<String>(column)?).or_insert(0) += 1;
                }
            }
            Ok(counts)
        })
        .await
    }
}
