//! The places of sandboxes that the server itself makes: which are wanted, which are up, what was kept of each. The
//! loop that makes and removes them is in `orchestrator`; a crash between any two steps leaves a row that says what
//! is next.

use std::time::Duration;

use jiff::Timestamp;
use omoi_protocol::{
    FailureKind, Place, ProjectId, ProviderKind, Removal, SandboxId, SandboxStatus, Stage, TaskId,
    launch::SpecLaunch,
    project::Project,
    sandbox::{Kept, NewSandbox as Wish, Sandbox},
    task::Task,
    ticket::Ticket,
};
use serde_json::{Map, Value as Json, json};

use super::{
    Error, Store, Tx,
    attempt::{self, Before},
    claim::{self, claim_found},
    dependency, project,
    proof::{self, Owed},
    prune, rescue,
    sandbox::{self, NewSandbox, Order, end},
    spec, task, ticket, token, transcript,
    transition::{self, Stored},
    value::{Row, params},
};

use crate::domain::{agent, commit::Work, model_key::MissingKey};

/// As few as the loop needs: it reads them of all places, every second.
const COLUMNS: &str =
    "id, project_id, live, place, branch_name, base_commit, place_tries, rescue_tries, place_due_at, removal";
/// How long a rescue may take to bring out what a dead sandbox held.
const RESCUE: Duration = Duration::from_secs(15 * 60);
const TRY_AGAIN_MAX: Duration = Duration::from_secs(60);

/// One row of the list that the loop works through.
#[derive(Debug, Clone)]
pub struct Placed {
    pub id: SandboxId,
    pub project_id: ProjectId,
    /// It may still act for its task.
    pub live: bool,
    pub place: Place,
    pub branch_name: String,
    pub base_commit: Option<String>,
    pub tries: i64,
    /// Rescues that have failed.
    pub rescue_tries: u32,
    pub due_at: Option<Timestamp>,
    /// Why it is to be removed now.
    pub removal: Option<Removal>,
}

/// Everything a launch is made from.
#[derive(Debug, Clone)]
pub struct Facts {
    pub sandbox: Sandbox,
    pub project: Project,
    pub task: Option<Task>,
    pub ticket: Option<Ticket>,
    pub wish: Wish,
    pub slot: i64,
    /// For a sandbox that checks what others made.
    pub owed: Option<Owed>,
    /// What was last wrong with the task.
    pub feedback: Option<String>,
    /// The phase of a spec that its task is.
    pub spec: Option<SpecLaunch>,
    /// What its task's attempts before it have left.
    pub before: Before,
    /// What the tasks that its task depends on have left.
    pub built_on: Vec<Work>,
    /// The sandbox's token; whatever it had before opens nothing any more.
    pub token: String,
}

impl Store {
    /// Asks for a sandbox, with a pending task or for a person.
    pub async fn sandbox_order(
        &self,
        actor: &str,
        project_id: &ProjectId,
        wish: Wish,
    ) -> Result<Sandbox, Error> {
        let (actor, project_id) = (actor.to_owned(), project_id.clone());
        self.write(async move |tx| order(tx, &actor, &project_id, wish.clone()).await).await
    }

    /// What is to be made, looked after or removed on a machine, and what no machine has taken yet. Oldest first.
    pub async fn place_list(&self, node: &str, limit: usize) -> Result<Vec<Placed>, Error> {
        let node = node.to_owned();
        self.read(async move |tx| {
            let sql = format!(
                "SELECT {COLUMNS} FROM sandboxes WHERE place IN ('wanted', 'up', 'kept') \
                 AND (node = $1 OR node IS NULL) UNION ALL \
                 SELECT {COLUMNS} FROM sandboxes WHERE place IN ('unkept', 'discarded') AND place = 'discarded' \
                 AND (node = $1 OR node IS NULL) ORDER BY id LIMIT $2"
            );
            tx.query(&sql, params![node.as_str(), limit]).await?.iter().map(read).collect()
        })
        .await
    }

    /// Keeps the leases of those that are still to be made, or being made: nobody else can speak for them yet.
    pub async fn place_renew_wanted(&self, node: &str) -> Result<(), Error> {
        let node = node.to_owned();
        self.write(async move |tx| {
            let (renewed, due) = (tx.now + tx.rules.lease_duration, tx.now + tx.rules.lease_duration * 3 / 4);
            let sql = "UPDATE sandboxes SET lease_expires_at = $2 WHERE place = 'wanted' AND live = 1 \
                       AND lease_expires_at < $3 AND (node = $1 OR node IS NULL)";
            tx.execute(sql, params![node.as_str(), renewed, due]).await
        })
        .await
    }

    /// Gives those of a machine time to be heard of again, once somebody looks after them who did not before.
    pub async fn place_adopt(&self, node: &str) -> Result<(), Error> {
        let node = node.to_owned();
        self.write(async move |tx| {
            let sql = "UPDATE sandboxes SET lease_expires_at = $2 WHERE place IN ('wanted', 'up', 'kept') AND live = 1 \
                       AND lease_expires_at < $2 AND (node = $1 OR node IS NULL)";
            tx.execute(sql, params![node.as_str(), tx.now + tx.rules.lease_duration]).await
        })
        .await
    }

    /// Takes a wanted sandbox for a machine and gives it a range of ids there; says whether it is this machine's.
    pub async fn place_take(&self, id: &SandboxId, node: &str, slots: i64) -> Result<bool, Error> {
        let (id, node) = (id.clone(), node.to_owned());
        self.write(async move |tx| {
            let row = tx.query_one("SELECT node, slot FROM sandboxes WHERE id = $1", params![&id]).await?;
            let row = row.ok_or_else(|| Error::not_found("sandbox", &id))?;
            if let Some(holder) = row.get::<Option<String>>("node")? {
                return Ok(holder == node);
            }
            let sql = "SELECT slot FROM sandboxes WHERE node = $1 AND slot IS NOT NULL \
                       AND place IN ('wanted', 'up', 'kept') ORDER BY slot";
            let taken = slots_of(tx.query(sql, params![node.as_str()]).await?)?;
            // Files of a sandbox that may yet be rescued belong to its range, so another sandbox gets it last.
            let sql = "SELECT slot FROM sandboxes WHERE place IN ('unkept', 'discarded') AND place = 'unkept' \
                       AND node = $1 AND slot IS NOT NULL ORDER BY slot";
            let wanted_back = slots_of(tx.query(sql, params![node.as_str()]).await?)?;
            let is_free = |slot: &i64| taken.binary_search(slot).is_err();
            let spare = (0..slots).find(|slot| is_free(slot) && wanted_back.binary_search(slot).is_err());
            let Some(slot) = spare.or_else(|| (0..slots).find(is_free)) else {
                return Err(Error::conflict(
                    "no_id_range",
                    format!("all {slots} ranges of user ids are in use"),
                ));
            };
            tx.execute(
                "UPDATE sandboxes SET node = $2, slot = $3 WHERE id = $1",
                params![&id, node.as_str(), slot],
            )
            .await?;
            Ok(true)
        })
        .await
    }

    /// What to launch a sandbox from. It gets a new token.
    pub async fn place_facts(&self, id: &SandboxId) -> Result<Facts, Error> {
        let id = id.clone();
        self.write(async move |tx| facts(tx, &id).await).await
    }

    /// The same for what is left of an ended one. For a while it may report what it had not sent.
    pub async fn place_rescue(&self, id: &SandboxId) -> Result<Facts, Error> {
        let id = id.clone();
        self.write(async move |tx| {
            let sql = "UPDATE sandboxes SET reports_until = $2 WHERE id = $1 AND live = 0";
            tx.execute(sql, params![&id, tx.now + RESCUE]).await?;
            facts(tx, &id).await
        })
        .await
    }

    pub async fn place_set_base(&self, id: &SandboxId, base_commit: &str) -> Result<(), Error> {
        let (id, base) = (id.clone(), base_commit.to_owned());
        self.write(async move |tx| {
            tx.execute("UPDATE sandboxes SET base_commit = $2 WHERE id = $1", params![&id, base.as_str()])
                .await?;
            // What checks begin with is what they prove.
            let sql = "UPDATE tasks SET commit_id = $2 WHERE commit_id IS NULL AND stage = 'check' \
                       AND id = (SELECT task_id FROM sandboxes WHERE id = $1 AND stage = 'check' AND live = 1)";
            tx.execute(sql, params![&id, base.as_str()]).await
        })
        .await
    }

    /// It is there.
    pub async fn place_up(&self, id: &SandboxId, isolation: Json) -> Result<(), Error> {
        let id = id.clone();
        self.write(async move |tx| {
            let sql = "UPDATE sandboxes SET place = 'up', isolation = $2, place_tries = 0, place_due_at = NULL, \
                       place_error = NULL WHERE id = $1 AND place = 'wanted' RETURNING task_id";
            let rows = tx.returning(sql, params![&id, isolation.to_string()]).await?;
            if let Some(row) = rows.first() {
                let held: Option<String> = row.get("task_id")?;
                tx.tell("SANDBOX_SPAWNED", "sandbox", id.as_str(), &json!({ "sandbox_id": id, "task_id": held }));
            }
            Ok(())
        })
        .await
    }

    /// The attempt has failed without its worker saying so. Changes nothing if it had.
    pub async fn place_failed(&self, id: &SandboxId, kind: FailureKind, error: &str) -> Result<(), Error> {
        let (id, error) = (id.clone(), error.to_owned());
        self.write(async move |tx| fail(tx, &id, kind, &error).await).await
    }

    /// The attempt cannot begin, since what its task builds on does not go together.
    pub async fn place_conflict(
        &self,
        id: &SandboxId,
        error: &str,
        between: &[String],
        files: &[String],
    ) -> Result<(), Error> {
        let (id, error) = (id.clone(), error.to_owned());
        let told = json!({ "sandbox_id": id, "between": between, "files": files, "error": error });
        self.write(async move |tx| {
            let held = sandbox::get(tx, &id).await?.task_id;
            if let Some(held) = held {
                tx.tell("TASK_CONFLICT", "task", held.as_str(), &told);
            }
            fail(tx, &id, FailureKind::Invalid, &error).await
        })
        .await
    }

    /// A step did not work and is tried again after a wait that grows.
    pub async fn place_try_again(&self, row: &Placed, error: &str) -> Result<(), Error> {
        let (id, tries, error) = (row.id.clone(), row.tries, error.to_owned());
        self.write(async move |tx| {
            let wait = Duration::from_secs(1 << tries.clamp(0, 6)).min(TRY_AGAIN_MAX);
            let sql = "UPDATE sandboxes SET place_tries = place_tries + 1, place_due_at = $2, place_error = $3 \
                       WHERE id = $1";
            tx.execute(sql, params![&id, tx.now + wait, error.as_str()]).await
        })
        .await
    }

    /// It has stopped and nothing of it would be lost. What is left of it takes so much of the disk.
    pub async fn place_kept(&self, id: &SandboxId, kept: Kept, disk_bytes: u64) -> Result<(), Error> {
        let id = id.clone();
        self.write(async move |tx| {
            let sql = "UPDATE sandboxes SET place = 'kept', kept = $2, place_tries = 0, place_due_at = NULL, \
                       rescue_tries = 0, rescue_error = NULL, \
                       place_error = CASE WHEN place_error = rescue_error THEN NULL ELSE place_error END, \
                       reports_until = $3, disk_bytes = $4, removal = $5 WHERE id = $1 AND live = 0 AND place IN ('wanted', 'up') RETURNING base_commit";
            let text = serde_json::to_string(&kept).unwrap_or_default();
            let bytes = i64::try_from(disk_bytes).unwrap_or(i64::MAX);
            let removal = prune::at_once(tx).map(Removal::as_str);
            let rows = tx.returning(sql, params![&id, text, tx.now, bytes, removal]).await?;
            let Some(row) = rows.first() else { return Ok(()) };
            if kept.kept {
                rescue::preserved(tx, &id, &kept, row.get("base_commit")?).await?;
            }
            tx.tell("SANDBOX_KEPT", "sandbox", id.as_str(), &json!({ "sandbox_id": id, "kept": kept }));
            Ok(())
        })
        .await
    }

    pub async fn place_gone(&self, id: &SandboxId) -> Result<(), Error> {
        let id = id.clone();
        self.write(async move |tx| {
            // Why one has failed stays to be read.
            let sql = "UPDATE sandboxes SET place = 'gone', slot = NULL, place_tries = 0, place_due_at = NULL, \
                       place_error = CASE WHEN status = 'failed' THEN place_error END \
                       WHERE id = $1 AND place IN ('kept', 'discarded') RETURNING removal";
            let rows = tx.returning(sql, params![&id]).await?;
            if let Some(row) = rows.first() {
                let reason: Option<String> = row.get("removal")?;
                tx.tell("SANDBOX_REMOVED", "sandbox", id.as_str(), &json!({ "sandbox_id": id, "reason": reason }));
            }
            Ok(())
        })
        .await
    }
}

/// A sandbox that is wanted, with a pending task or for a person, in the caller's transaction.
pub(super) async fn order(
    tx: &mut Tx,
    actor: &str,
    project_id: &ProjectId,
    mut wish: Wish,
) -> Result<Sandbox, Error> {
    let project = project::open(tx, project_id).await?;
    if project.repository_url.is_none() {
        let detail = format!("project {} has no repository; give it a repository_url", project.name);
        return Err(Error::conflict("repository_missing", detail));
    }
    let found = match &wish.task_id {
        Some(task_id) => Some(claim::look_up(tx, task_id).await?),
        None => None,
    };
    let held = found.as_ref().map(|row| task::of(tx, row)).transpose()?;
    if let Some(held) = held.as_ref().filter(|held| held.project_id != *project_id) {
        let detail = format!("task {} belongs to another project", held.id);
        return Err(Error::conflict("wrong_project", detail));
    }
    if let Some(held) = held.as_ref().filter(|held| held.stage == Stage::Check) {
        wish = proof::wish_for_checks(tx, held, &wish).await?;
    } else if let Some(held) = &held {
        let attempted = found.as_ref().map_or(Ok(0), |row| row.get::<i64>("generation"))? > 0;
        if attempted && wish.resume_session_id.is_none() && wish.base.is_none() {
            wish.resume_session_id = attempt::session(tx, project_id, &held.id).await?;
        }
        let of_task = agent::resumes(&held.execution_config).map(str::to_owned);
        wish.resume_session_id = wish.resume_session_id.or(of_task);
    }
    if let Some(session) = &wish.resume_session_id {
        transcript::resumable(tx, project_id, session).await?;
    }
    if let Some(held) = held.as_ref().filter(|_| wish.command.is_empty())
        && let Some(missing) = missing_key(tx, &project.settings, held)
    {
        let detail = format!("task {} cannot be started: {missing}", held.id);
        return Err(Error::conflict("model_key_missing", detail));
    }
    let id = SandboxId::generate();
    let order = Order {
        project_id: project_id.clone(),
        branch_name: format!("sandbox/{}", &id.as_str()[id.as_str().len().saturating_sub(12)..]),
        wish: serde_json::to_string(&wish).unwrap_or_default(),
    };
    let new = NewSandbox {
        id: id.clone(),
        provider: wish.provider.unwrap_or(ProviderKind::Local),
        agent_id: None,
        labels: serde_json::to_string(&wish.labels).unwrap_or_default(),
        lease_seconds: None,
        order: Some(order),
    };
    let made = match &found {
        Some(row) => claim_found(tx, row, new).await?,
        None => sandbox::insert(tx, new, None).await?,
    };
    tx.record(
        actor,
        "sandbox.create",
        "sandbox",
        id.as_str(),
        json!({ "project_id": project_id, "task_id": wish.task_id }),
    );
    Ok(made.sandbox)
}

/// The key that the agent of a task needs, where the server does not have it. Checks need no agent.
pub(super) fn missing_key(tx: &Tx, settings: &Map<String, Json>, held: &Task) -> Option<MissingKey> {
    let agent = agent::agent(&tx.rules.model, settings, &held.execution_config);
    tx.rules.keys.missing(&agent).filter(|_| held.stage == Stage::Work)
}

/// The attempt has failed without its worker saying so. Changes nothing if it had.
async fn fail(tx: &mut Tx, id: &SandboxId, kind: FailureKind, error: &str) -> Result<(), Error> {
    let sandbox = sandbox::get(tx, id).await?;
    if !sandbox.status.is_live() {
        return Ok(());
    }
    if let Some(held) = &sandbox.task_id {
        let stored = Stored::load(tx, held).await?;
        let (event, note) = proof::failed(tx, &stored, id, sandbox.generation, kind, error, &[]);
        transition::transition(tx, &stored, event, note).await?.ok();
    }
    end(tx, id, SandboxStatus::Failed, kind.into(), Some(error)).await?;
    let told = json!({ "sandbox_id": id, "task_id": sandbox.task_id, "kind": kind, "error": error });
    tx.tell("SANDBOX_FAILED", "sandbox", id.as_str(), &told);
    tx.execute("UPDATE sandboxes SET place_error = $2 WHERE id = $1", params![id, error]).await
}

async fn facts(tx: &mut Tx, id: &SandboxId) -> Result<Facts, Error> {
    let sandbox = sandbox::get(tx, id).await?;
    let row = tx.query_one("SELECT wish, slot FROM sandboxes WHERE id = $1", params![id]).await?;
    let row = row.ok_or_else(|| Error::not_found("sandbox", id))?;
    let project_id = sandbox.project_id.clone().ok_or_else(|| Error::not_found("project of sandbox", id))?;
    let task = match &sandbox.task_id {
        Some(held) => Some(task::get(tx, held).await?),
        None => None,
    };
    let (owed, feedback) = match &sandbox.task_id {
        Some(held) => proof_of(tx, held, sandbox.stage).await?,
        None => (None, None),
    };
    let ticket = match task.as_ref().and_then(|task| task.ticket_id.as_ref()) {
        Some(ticket_id) => Some(ticket::get(tx, ticket_id).await?),
        None => None,
    };
    let before = match &sandbox.task_id {
        // The first has none before it.
        Some(held) if sandbox.generation > 1 => attempt::before(tx, held, sandbox.generation).await?,
        _ => Before::default(),
    };
    let spec = match &sandbox.task_id {
        Some(held) => spec::brief(tx, held).await?,
        None => None,
    };
    let built_on = match &sandbox.task_id {
        Some(held) => dependency::works(tx, held).await?,
        None => Vec::new(),
    };
    Ok(Facts {
        built_on,
        before,
        spec,
        project: project::get(tx, &project_id).await?,
        task,
        ticket,
        owed,
        feedback,
        wish: row.json("wish")?,
        slot: row.get::<Option<i64>>("slot")?.unwrap_or(0),
        token: token::replace_for_sandbox(tx, id).await?,
        sandbox,
    })
}

async fn proof_of(tx: &mut Tx, id: &TaskId, stage: Stage) -> Result<(Option<Owed>, Option<String>), Error> {
    let sql = "SELECT commit_id, checks, feedback FROM tasks WHERE id = $1";
    let row = tx.query_one(sql, params![id]).await?.ok_or_else(|| Error::not_found("task", id))?;
    let owed = if stage == Stage::Check { Some(proof::read(&row)?) } else { None };
    Ok((owed, row.get("feedback")?))
}

fn slots_of(rows: Vec<Row>) -> Result<Vec<i64>, Error> {
    rows.iter().map(|row| row.get("slot")).collect()
}

fn read(row: &Row) -> Result<Placed, Error> {
    Ok(Placed {
        id: row.parse("id")?,
        project_id: row.parse("project_id")?,
        live: row.get("live")?,
        place: row.parse("place")?,
        branch_name: row.get("branch_name")?,
        base_commit: row.get("base_commit")?,
        tries: row.get("place_tries")?,
        rescue_tries: u32::try_from(row.get::<i64>("rescue_tries")?).unwrap_or(u32::MAX),
        due_at: row.get("place_due_at")?,
        removal: row.parse_opt("removal")?,
    })
}
