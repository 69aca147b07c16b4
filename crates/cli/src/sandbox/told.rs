//! What a watched sandbox tells: the steps of its making, what its command writes and how that ended, and what it cost.

use anyhow::Result;
use omoi_protocol::{
    Place, SandboxStatus,
    event::{CommandStream, Payload, StoredEvent},
    sandbox::Sandbox,
};
use serde_json::Value;

use crate::{
    Context,
    out::{Stream, clean},
    table::fields,
    text::{short, size},
};

const LINE_CHARS_MAX: usize = 200;
const SIGNAL: i64 = 128;

/// Goes through a sandbox's events and says each thing once.
#[derive(Debug, Default)]
pub struct Told {
    /// The command whose output is wanted: this one, or the first that is started.
    pub command: Option<String>,
    /// How that ended.
    pub exit_code: Option<i64>,
    /// What the worker said of its failure.
    pub error: Option<String>,
    micro_usd: i64,
    place: Option<Place>,
    place_error: Option<String>,
    /// Tries to keep its work that failed, as last told.
    rescue_tries: i64,
}

impl Told {
    pub fn of_command(id: &str) -> Self {
        Self { command: Some(id.to_owned()), ..Self::default() }
    }

    /// As lines of JSON every event comes as it is.
    pub fn event(&mut self, cx: &Context, event: &StoredEvent) -> Result<()> {
        if cx.out.is_json() {
            cx.out.item(event, |_| String::new())?;
        }
        let step = match event.payload() {
            Payload::CommandStarted(data) if self.is_ours(data.command_id.as_deref()) => {
                self.command = data.command_id.clone();
                Some(format!("running {}", data.argv.unwrap_or_default().join(" ")))
            }
            Payload::CommandOutput(data) if self.is_ours(data.command_id.as_deref()) => {
                let to = match data.stream {
                    Some(CommandStream::Stderr) => Stream::Stderr,
                    _ => Stream::Stdout,
                };
                if !cx.out.is_json() {
                    cx.out.pass_on(data.text.as_deref().unwrap_or_default(), to)?;
                }
                data.dropped_bytes.filter(|n| *n > 0).map(|n| format!("{n} bytes of output were dropped"))
            }
            Payload::CommandCompleted(data) if self.is_ours(data.command_id.as_deref()) => {
                self.exit_code = data.exit_code.or(data.signal.map(|signal| SIGNAL + signal));
                None
            }
            payload => self.step(&payload, event),
        };
        if let Some(step) = step.filter(|_| !cx.out.is_json()) {
            cx.out.note(&short(&clean(&step), LINE_CHARS_MAX));
        }
        Ok(())
    }

    /// How the sandbox stands, where that has changed.
    pub fn sandbox(&mut self, cx: &Context, sandbox: &Sandbox) {
        let say = |text: String| {
            if !cx.out.is_json() {
                cx.out.note(&clean(&text));
            }
        };
        if self.place.replace(sandbox.place) != Some(sandbox.place) {
            match sandbox.place {
                Place::Wanted => say(format!("{} is being made", sandbox.id)),
                Place::Up => say(format!("{} is up, isolation {}", sandbox.id, isolation(sandbox))),
                Place::None | Place::Unkept | Place::Discarded | Place::Kept | Place::Gone => {}
            }
        }
        if self.place_error != sandbox.place_error {
            // Why one failed is told at the end; this is what stands in the way of the next step.
            let problem = sandbox.place_error.as_ref().filter(|_| sandbox.status != SandboxStatus::Failed);
            let problem = problem.filter(|_| sandbox.rescue.is_none());
            if let Some(error) = problem {
                say(format!("{} is tried again: {error}", sandbox.id));
            }
            self.place_error.clone_from(&sandbox.place_error);
        }
        let tries = sandbox.rescue.as_ref().map_or(0, |rescue| rescue.tries);
        if let Some(rescue) = sandbox.rescue.as_ref().filter(|_| self.rescue_tries != tries) {
            say(format!("the work of {} is not kept yet, try {tries}: {}", sandbox.id, rescue.error));
        }
        self.rescue_tries = tries;
    }

    /// What is good to know when it has ended.
    pub fn sum(&self, sandbox: &Sandbox) -> String {
        fields([
            ("sandbox", Some(format!("{} {}", sandbox.id, sandbox.status))),
            ("reason", self.error.clone()),
            ("branch", sandbox.branch_name.clone()),
            ("kept", kept(sandbox)),
            ("cost", (self.micro_usd > 0).then(|| usd(self.micro_usd))),
        ])
    }

    fn is_ours(&self, id: Option<&str>) -> bool {
        self.command.is_none() || self.command.as_deref() == id
    }

    fn step(&mut self, payload: &Payload, event: &StoredEvent) -> Option<String> {
        match payload {
            Payload::WorkspaceProgress(data) => {
                let words = [data.step.as_deref(), data.message.as_deref()];
                Some(words.into_iter().flatten().collect::<Vec<_>>().join(": "))
                    .filter(|text| !text.is_empty())
            }
            Payload::WorkspaceReady(data) => {
                let commit = data.commit.as_deref().map(|commit| format!(" at {}", abbreviate(commit)));
                let branch = data.branch_name.as_deref().unwrap_or("its branch");
                Some(format!("workspace ready on {branch}{}", commit.unwrap_or_default()))
            }
            Payload::WorkspacePushed(data) => {
                let commit = data.commit.as_deref().map(abbreviate).unwrap_or_default();
                Some(format!("pushed {} {commit}", data.branch_name.as_deref().unwrap_or("its branch")))
            }
            Payload::AgentCompleted(data) if data.success == Some(false) => {
                self.error.clone_from(&data.error);
                None
            }
            Payload::AgentFailed(data) => {
                self.error.clone_from(&data.error);
                None
            }
            Payload::SandboxFailed(data) => {
                self.error.clone_from(&data.error);
                None
            }
            _ => {
                if event.event_type == "model.call" {
                    self.micro_usd += cost(event.event_data.get()).unwrap_or(0);
                }
                None
            }
        }
    }
}

/// What one call of a model cost.
pub fn cost(data: &str) -> Option<i64> {
    let data: Value = serde_json::from_str(data).ok()?;
    let usd = data.get("cost_usd")?;
    let usd = usd.as_f64().or_else(|| usd.as_str()?.parse().ok())?;
    // Far below the largest whole number, and never below zero.
    Some((usd * 1e6).round().clamp(0.0, 1e12) as i64)
}

pub fn usd(micro: i64) -> String {
    format!("${}.{:06}", micro / 1_000_000, micro % 1_000_000)
}

pub fn abbreviate(commit: &str) -> String {
    commit.chars().take(12).collect()
}

/// What of its work was kept beside its branch.
pub fn kept(sandbox: &Sandbox) -> Option<String> {
    let Some(kept) = &sandbox.kept else {
        return sandbox.rescue.as_ref().map(|rescue| format!("no: {}", rescue.error));
    };
    if !kept.kept {
        return Some("all of it is on the branch".to_owned());
    }
    let commit = kept.commit.as_deref().map(|commit| format!(" at {}", abbreviate(commit)));
    let reference = kept.reference.as_deref().unwrap_or("its work");
    let mut lines = vec![format!(
        "{reference}{} ({} files, {} events)",
        commit.unwrap_or_default(),
        kept.files,
        kept.events
    )];
    lines.extend(kept.set_aside.as_ref().map(|aside| {
        format!("{} at {} ({})", aside.reference, abbreviate(&aside.commit), set_aside(aside.files))
    }));
    let set_aside = kept.set_aside.iter().flat_map(|aside| &aside.listed);
    lines.extend(set_aside.map(|one| format!("set aside as {}: {}: {}", one.file, one.path, one.reason)));
    lines.extend(
        kept.left_out
            .iter()
            .map(|left| format!("left out: {} ({}): {}", left.path, size(left.bytes), left.reason)),
    );
    let beyond = kept.left_out_files.saturating_sub(kept.left_out.len() as u64);
    lines.extend(
        (beyond > 0).then(|| format!("left out: {beyond} more, {} in all", size(kept.left_out_bytes))),
    );
    lines.extend(kept.notes.iter().map(|note| format!("note: {note}")));
    Some(lines.join("\n"))
}

/// `full`, or which layers are not.
pub fn isolation(sandbox: &Sandbox) -> String {
    let Some(isolation) = &sandbox.isolation else { return "not told".to_owned() };
    let level = isolation["level"].as_str().unwrap_or("not told");
    let layers = isolation["layers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let less =
        layers.iter().filter(|layer| layer["status"] != "yes").filter_map(|layer| layer["layer"].as_str());
    let less: Vec<_> = less.collect();
    if less.is_empty() { level.to_owned() } else { format!("{level}: {}", less.join(", ")) }
}

fn set_aside(files: u64) -> String {
    let stored = match files {
        1 => "1 file with a name that Git rejects, stored under a number".to_owned(),
        _ => format!("{files} files with names that Git rejects, stored under numbers"),
    };
    format!("{stored}; INDEX lists the original names")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    pub fn sandbox(more: Value) -> Sandbox {
        let mut sandbox = json!({
            "id": "sbx-1", "provider": "local", "status": "running", "generation": 0, "labels": {},
            "created_at": "2026-01-01T00:00:00Z", "place": "up",
        });
        sandbox.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(sandbox).unwrap()
    }

    #[test]
    fn what_was_set_aside_and_left_out_is_told_by_name() {
        let in_part = sandbox(json!({ "place": "unkept", "kept": {
            "kept": true, "ref": "refs/preserved/sbx-1", "commit": "0123456789abcdef", "files": 2, "events": 0,
            "set_aside": { "ref": "refs/set-aside/sbx-1", "commit": "fedcba9876543210", "files": 1,
                "listed": [{ "file": "000001", "path": ".git ", "reason": "hasDotgit" }] },
            "left_out": [{ "path": "big.bin", "bytes": 157_286_400, "reason": "it is larger than a push" }],
            "left_out_files": 2, "left_out_bytes": 157_287_424, "notes": ["pipe is not kept"],
        } }));
        assert_eq!(
            kept(&in_part).unwrap().lines().collect::<Vec<_>>(),
            [
                "refs/preserved/sbx-1 at 0123456789ab (2 files, 0 events)",
                "refs/set-aside/sbx-1 at fedcba987654 (1 file with a name that Git rejects, stored under a number; INDEX lists the original names)",
                "set aside as 000001: .git : hasDotgit",
                "left out: big.bin (150.0 MiB): it is larger than a push",
                "left out: 1 more, 150.0 MiB in all",
                "note: pipe is not kept",
            ]
        );
    }

    #[test]
    fn what_was_kept_and_what_it_cost_is_told_in_the_end() {
        let ended = sandbox(json!({
            "status": "completed", "branch_name": "sandbox/x", "place": "gone",
            "kept": { "kept": true, "ref": "refs/preserved/sbx-1", "commit": "0123456789abcdef", "files": 2, "events": 3 },
        }));
        let told = Told { micro_usd: 1_230_004, ..Told::default() };
        assert_eq!(
            told.sum(&ended),
            "sandbox  sbx-1 completed\nbranch   sandbox/x\nkept     refs/preserved/sbx-1 at 0123456789ab (2 files, 3 events)\n\
             cost     $1.230004\n"
        );
        assert_eq!(
            kept(&sandbox(json!({ "kept": { "kept": false } }))).unwrap(),
            "all of it is on the branch"
        );
    }

    #[test]
    fn money_is_summed_in_whole_millionths() {
        for (data, micro) in [
            (r#"{"cost_usd":0.1}"#, Some(100_000)),
            (r#"{"cost_usd":"0.000001"}"#, Some(1)),
            (r#"{"cost_usd":-5}"#, Some(0)),
            (r#"{"cost_usd":null}"#, None),
            ("[]", None),
        ] {
            assert_eq!(cost(data), micro, "{data}");
        }
    }

    #[test]
    fn layers_that_are_less_than_whole_are_named() {
        let layers = json!({ "level": "reduced", "layers": [
            { "layer": "seccomp", "status": "yes" }, { "layer": "disk_cap", "status": "reduced" }] });
        assert_eq!(isolation(&sandbox(json!({ "isolation": layers }))), "reduced: disk_cap");
        assert_eq!(isolation(&sandbox(json!({ "isolation": { "level": "full", "layers": [] } }))), "full");
        assert_eq!(isolation(&sandbox(json!({}))), "not told");
    }
}
