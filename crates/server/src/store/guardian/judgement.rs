//! Judgements: asked by the Guardian or by a person, taken by whoever asks the model, and ended by its answer or by the
//! reason why there is none. The end stands on the sandbox's time line, from where the Guardian takes it like any event.

use std::time::Duration;

use jiff::Timestamp;
use omoi_protocol::{
    CallId, FindingKind, JudgementCause, JudgementFailure, JudgementId, JudgementState, SandboxId,
    guardian::{GuardianJudgement, Judgement},
};
use serde_json::json;

use super::super::{
    Ask, Error, Store, Tx, sandbox, system,
    value::{Row, params},
};
use crate::domain::{
    money::Usd,
    supervision::judge::{self, Due},
};

const SELECT: &str = "SELECT j.id, j.sandbox_id, j.task_id, j.project_id, j.state, j.cause, j.doubts, j.asked_by, \
     j.asked_at, j.answered_at, j.seq, j.model, j.call_id, j.failure, j.error, j.judgement, c.cost FROM judgements j \
     LEFT JOIN model_calls c ON c.id = j.call_id";
/// What the judge thinks of those that live.
pub(in super::super) const JUDGED: &str =
    "SELECT id, judged FROM sandboxes WHERE live = 1 AND judged IS NOT NULL";
const LOST: &str = "whoever asked the model is gone";

/// A question that was taken and is to be put to the model.
#[derive(Debug, Clone)]
pub struct Question {
    pub id: JudgementId,
    pub sandbox_id: SandboxId,
    pub doubts: Vec<FindingKind>,
}

/// How a judgement ended.
#[derive(Debug, Clone)]
pub struct Ended {
    pub id: JudgementId,
    pub model: String,
    /// The last event that the model was told of.
    pub seq: i64,
    /// How the call would be called, if it was made.
    pub call_id: Option<CallId>,
    pub answer: Result<Judgement, (JudgementFailure, String)>,
}

impl Store {
    /// Newest first.
    pub async fn judgement_list(
        &self,
        of: &SandboxId,
        before: Option<JudgementId>,
        limit: usize,
    ) -> Result<Vec<GuardianJudgement>, Error> {
        let of = of.clone();
        self.read(async move |tx| {
            sandbox::get(tx, &of).await?;
            let mut ask = Ask::new(SELECT);
            ask.and_some("j.sandbox_id =", Some(&of));
            ask.and_some("j.id <", before.as_ref());
            let (sql, values) = ask.order_limit("j.id DESC", limit);
            tx.query(&sql, values).await?.iter().map(read).collect()
        })
        .await
    }

    /// A person wants to know. Where a question is open already, it is that one.
    pub async fn judgement_ask(&self, actor: &str, of: &SandboxId) -> Result<GuardianJudgement, Error> {
        let (actor, of) = (actor.to_owned(), of.clone());
        self.write(async move |tx| {
            if !sandbox::get(tx, &of).await?.status.is_live() {
                let detail = format!("sandbox {of} has ended, so there is no course to judge");
                return Err(Error::conflict("sandbox_ended", detail));
            }
            let due = Due { cause: JudgementCause::Person, doubts: Vec::new() };
            ask(tx, &actor, &of, &due, tx.now()).await?;
            let sql = format!("{SELECT} WHERE j.sandbox_id = $1 AND j.state = 'asked'");
            let row = tx.query_one(&sql, params![&of]).await?;
            read(&row.ok_or_else(|| Error::not_found("judgement", &of))?)
        })
        .await
    }

    /// Takes questions, oldest first, for a time. Those that somebody took and never ended have failed.
    pub async fn judgement_take(&self, limit: usize, within: Duration) -> Result<Vec<Question>, Error> {
        self.write(async move |tx| {
            let sql = "SELECT id, sandbox_id, doubts, taken_until FROM judgements WHERE state = 'asked' \
                       AND (taken_until IS NULL OR taken_until <= $1) ORDER BY asked_at, id LIMIT $2";
            let mut taken = Vec::new();
            for row in tx.query(sql, params![tx.now(), limit]).await? {
                let (id, sandbox_id) = (row.parse("id")?, row.parse("sandbox_id")?);
                if row.get::<Option<Timestamp>>("taken_until")?.is_some() {
                    let answer = Err((JudgementFailure::Unavailable, LOST.to_owned()));
                    let (model, seq, call_id) = (String::new(), 0, None);
                    end(tx, &Ended { id, model, seq, call_id, answer }).await?;
                    continue;
                }
                let sql = "UPDATE judgements SET taken_until = $2 WHERE id = $1";
                tx.execute(sql, params![&id, tx.now() + within]).await?;
                taken.push(Question { id, sandbox_id, doubts: row.json("doubts")? });
            }
            Ok(taken)
        })
        .await
    }

    pub async fn judgement_end(&self, ended: Ended) -> Result<(), Error> {
        self.write(async move |tx| end(tx, &ended).await).await
    }
}

/// Nothing, where a question about the sandbox is open.
pub(super) async fn ask(
    tx: &mut Tx,
    actor: &str,
    of: &SandboxId,
    due: &Due,
    at: Timestamp,
) -> Result<(), Error> {
    let sql = "INSERT INTO judgements (id, sandbox_id, task_id, project_id, state, cause, doubts, asked_by, asked_at) \
               SELECT $1, s.id, s.task_id, s.project_id, 'asked', $3, $4, $5, $6 FROM sandboxes s WHERE s.id = $2 \
               ON CONFLICT DO NOTHING RETURNING id";
    let (id, doubts) = (JudgementId::generate(), serde_json::to_string(&due.doubts).unwrap_or_default());
    let values = params![&id, of, due.cause.as_str(), doubts, actor, at];
    if tx.returning(sql, values).await?.is_empty() || due.cause != JudgementCause::Person {
        return Ok(());
    }
    tx.record(actor, "guardian.judge", "sandbox", of.as_str(), json!({ "judgement_id": id }));
    Ok(())
}

/// Nothing, where it has ended before.
async fn end(tx: &mut Tx, ended: &Ended) -> Result<(), Error> {
    let (judgement, failure) = match &ended.answer {
        Ok(judgement) => (Some(judgement), None),
        Err((failure, error)) => (None, Some((*failure, error.as_str()))),
    };
    let state = if judgement.is_some() { JudgementState::Done } else { JudgementState::Failed };
    let sql = "UPDATE judgements SET state = $2, model = $3, seq = $4, call_id = (SELECT c.id FROM model_calls c WHERE c.id = $5), failure = $6, error = $7, \
               judgement = $8, answered_at = $9, taken_until = NULL WHERE id = $1 AND state = 'asked' RETURNING id";
    let values = params![
        &ended.id,
        state.as_str(),
        Some(ended.model.as_str()).filter(|model| !model.is_empty()),
        Some(ended.seq).filter(|seq| *seq > 0),
        ended.call_id.as_ref(),
        failure.map(|(failure, _)| failure.as_str()),
        failure.map(|(_, error)| error),
        judgement.map(|judgement| serde_json::to_string(judgement).unwrap_or_default()),
        tx.now()
    ];
    if tx.returning(sql, values).await?.is_empty() {
        return Ok(());
    }
    let row = tx.query_one(&format!("{SELECT} WHERE j.id = $1"), params![&ended.id]).await?;
    let made = read(&row.ok_or_else(|| Error::not_found("judgement", &ended.id))?)?;
    if let Some(judgement) = judgement {
        let sql = "UPDATE sandboxes SET judged = $2 WHERE id = $1";
        tx.execute(sql, params![&made.sandbox_id, judgement.alignment_score]).await?;
    }
    let told = json!({
        "judgement_id": made.id, "state": made.state, "cause": made.cause, "doubts": made.doubts, "by": made.asked_by,
        "seq": made.seq, "model": made.model, "call_id": made.call_id, "cost_usd": made.cost_usd,
        "failure": made.failure, "error": made.error, "judgement": made.judgement,
    });
    system::append(tx, &made.sandbox_id, judge::EVENT, &told).await
}

fn read(row: &Row) -> Result<GuardianJudgement, Error> {
    let judgement = match row.get::<Option<String>>("judgement")? {
        Some(_) => Some(row.json("judgement")?),
        None => None,
    };
    Ok(GuardianJudgement {
        id: row.parse("id")?,
        sandbox_id: row.parse("sandbox_id")?,
        task_id: row.parse_opt("task_id")?,
        project_id: row.parse_opt("project_id")?,
        state: row.parse("state")?,
        cause: row.parse("cause")?,
        doubts: row.json("doubts")?,
        asked_by: row.get("asked_by")?,
        asked_at: row.get("asked_at")?,
        answered_at: row.get("answered_at")?,
        seq: row.get("seq")?,
        model: row.get("model")?,
        call_id: row.parse_opt("call_id")?,
        cost_usd: Usd::from_nanos(row.get::<Option<i64>>("cost")?.unwrap_or(0)).as_f64(),
        failure: row.parse_opt("failure")?,
        error: row.get("error")?,
        judgement,
    })
}
