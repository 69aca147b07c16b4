//! Whether the Guardian runs, and how well sandboxes do by what it found.

use std::collections::HashMap;

use omoi_protocol::{
    JudgementState, Steering,
    guardian::{GuardianEffects, GuardianStatus, JudgeStatus},
};

use super::{
    super::{
        Error, Store, Tx, spend,
        value::{Row, params},
    },
    judgement::JUDGED,
};
use crate::{
    config,
    domain::{
        money::Usd,
        supervision::health::{self, Standing},
    },
};

const DAY_HOURS: i64 = 24;

impl Store {
    /// `steering` is what holds where a project does not say.
    pub async fn guardian_status(
        &self,
        steering: Steering,
        judge: &config::Judge,
    ) -> Result<GuardianStatus, Error> {
        let judge = judge.clone();
        self.read(async move |tx| {
            let sql = "SELECT position, events, holder, held_until, ticked_at, tick_us, watched, bytes FROM guardian WHERE id = 1";
            let row = tx.query_one(sql, params![]).await?.ok_or_else(|| Error::not_found("guardian", "row"))?;
            let sql = "SELECT count(*) AS live FROM sandboxes WHERE live = 1";
            let live = number(tx, sql, "live").await?;
            let sql = "SELECT f.sandbox_id, CAST(sum(f.weight) AS BIGINT) AS weights, max(f.weight) AS heaviest \
                       FROM findings f JOIN sandboxes s ON s.id = f.sandbox_id AND s.live = 1 \
                       WHERE f.cleared_at IS NULL GROUP BY f.sandbox_id";
            let mut standings: HashMap<String, Standing> = HashMap::new();
            for row in tx.query(sql, params![]).await? {
                let (weights, heaviest) = (row.get("weights")?, row.get("heaviest")?);
                standings.insert(row.get("sandbox_id")?, Standing { weights, heaviest, judged: None });
            }
            for row in tx.query(JUDGED, params![]).await? {
                standings.entry(row.get("id")?).or_default().judged = Some(row.get("judged")?);
            }
            let standings: Vec<Standing> = standings.into_values().collect();
            let open = tx
                .query(
                    // By an expression, since the index of kinds holds those that were cleared as well.
                    "SELECT COALESCE(kind, '') AS kind, count(*) AS found FROM findings WHERE cleared_at IS NULL \
                     GROUP BY COALESCE(kind, '')",
                    params![],
                )
                .await?;
            let open = open.iter().map(|row| Ok((row.get("kind")?, row.get("found")?)));
            let sql = "SELECT count(*) AS waiting FROM interventions WHERE state = 'suggested'";
            let waiting = number(tx, sql, "waiting").await?;
            let sql = "SELECT count(*) AS policies FROM policies p WHERE p.text IS NOT NULL AND p.version = \
                       (SELECT max(q.version) FROM policies q WHERE q.project_id = p.project_id)";
            let policies = number(tx, sql, "policies").await?;
            let held_until: Option<jiff::Timestamp> = row.get("held_until")?;
            Ok(GuardianStatus {
                running: held_until.is_some_and(|until| until > tx.now()),
                node: row.get("holder")?,
                last_tick_at: row.get("ticked_at")?,
                last_tick_ms: row.get::<Option<i64>>("tick_us")?.map(|us| us as f64 / 1000.0),
                sandboxes_watched: row.get("watched")?,
                bytes: row.get("bytes")?,
                events_taken: row.get("events")?,
                position: row.get("position")?,
                steering,
                policies,
                health: health::health(live, &standings),
                open_findings: open.collect::<Result<_, Error>>()?,
                waiting,
                effects: effects(tx).await?,
                judge: judged(tx, &judge).await?,
            })
        })
        .await
    }
}

async fn effects(tx: &mut Tx) -> Result<GuardianEffects, Error> {
    let since = tx.now() - jiff::SignedDuration::from_hours(DAY_HOURS);
    let sql = "SELECT effect, count(*) AS made FROM interventions WHERE mode <> 'record' AND created_at >= $1 \
               AND state IN ('sent', 'done') GROUP BY effect";
    let mut effects = GuardianEffects::default();
    for row in tx.query(sql, params![since]).await? {
        let made: i64 = row.get("made")?;
        effects.made += made;
        match row.get::<Option<String>>("effect")?.as_deref() {
            Some("changed") => effects.changed += made,
            Some("unchanged") => effects.unchanged += made,
            Some(_) => effects.unknown += made,
            None => {}
        }
    }
    Ok(effects)
}

async fn judged(tx: &mut Tx, judge: &config::Judge) -> Result<JudgeStatus, Error> {
    let since = tx.now() - jiff::SignedDuration::from_hours(DAY_HOURS);
    let sql = "SELECT state, count(*) AS judged FROM judgements WHERE answered_at >= $1 GROUP BY state";
    let (mut done, mut failed) = (0, 0);
    for row in tx.query(sql, params![since]).await? {
        match row.parse("state")? {
            JudgementState::Done => done = row.get("judged")?,
            JudgementState::Failed => failed = row.get("judged")?,
            JudgementState::Asked => {}
        }
    }
    Ok(JudgeStatus {
        enabled: judge.enabled,
        model: judge.model.clone(),
        day_budget_usd: tx.rules.judge_day_budget.map(Usd::as_f64),
        spent_usd: spend::of_judge(tx).await?.booked.as_f64(),
        done,
        failed,
    })
}

async fn number(tx: &mut Tx, sql: &str, column: &str) -> Result<i64, Error> {
    tx.query_one(sql, params![]).await?.map_or(Ok(0), |row: Row| row.get(column))
}
