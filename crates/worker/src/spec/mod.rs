//! A phase of a spec: the agent reads the project and writes one JSON file, outside of the work tree, which is looked at here
//! and handed in. What it is worth is judged by the server.

pub mod prompt;

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use omoi_protocol::{
    FailureKind,
    event::{Decimal, SpecPhaseCompleted, SpecPhaseFailed, SpecPhaseRetry, SpecPhaseStarted},
    launch::{LaunchSpec, SpecLaunch, spec_artifact},
    outcome::Failure,
    spec::{OUTPUT_BYTES_MAX, shape},
};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    agent::{session::Ended, tell::clip},
    drive::{CODE_FAILED, CODE_TIMED_OUT, Drive, INTERRUPTED, Waited, over_budget},
    report::{self, Done},
    work::{Stop, Wish, more_than},
};

/// How often an output may be put right before the attempt has failed.
const TRIES_MAX: u64 = 3;
const DIR: &str = "omoi-spec";
const TEMPORARY: &str = "/tmp";
/// How long a server may be away when the output is to be handed in.
const AWAY_LIMIT: Duration = Duration::from_secs(30 * 60);
const AWAY_PAUSE: Duration = Duration::from_secs(2);

/// Where the files of a phase are.
pub struct Files {
    dir: PathBuf,
}

impl Files {
    pub fn of(launch: &LaunchSpec) -> Self {
        let environment = launch.environment();
        let temporary = environment.get("TMPDIR").map_or(TEMPORARY, String::as_str);
        Self { dir: Path::new(temporary).join(DIR) }
    }

    /// What a phase came to: this one's output, or what an earlier one put out.
    pub fn output(&self, phase: &str) -> PathBuf {
        self.dir.join(format!("{phase}.json"))
    }

    /// What the last attempt at this phase handed in.
    pub fn previous(&self, phase: &str) -> PathBuf {
        self.dir.join(format!("{phase}.before.json"))
    }

    /// Puts down what the agent may read. An output that is there already stays.
    fn lay_out(&self, spec: &SpecLaunch) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        let write = |path: PathBuf, value: &Value| {
            fs::write(path, serde_json::to_string_pretty(value).unwrap_or_default())
        };
        for (phase, output) in &spec.phase_context {
            write(self.output(phase), output)?;
        }
        spec.previous.as_ref().map_or(Ok(()), |output| write(self.previous(spec.phase.as_str()), output))
    }

    /// What the agent has written; one byte more than may be tells that it is too much.
    fn read(&self, spec: &SpecLaunch) -> Result<String, String> {
        let path = self.output(spec.phase.as_str());
        let mut text = Vec::new();
        let opened = path.symlink_metadata().and_then(|meta| match meta.is_file() {
            true => File::open(&path),
            false => Err(io::Error::other("it is no regular file")),
        });
        let read = opened.and_then(|file| file.take(OUTPUT_BYTES_MAX as u64 + 1).read_to_end(&mut text));
        match read {
            Ok(_) => String::from_utf8(text).map_err(|_| format!("{} is not UTF-8", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("there is no {}; write the output there", path.display()))
            }
            Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
        }
    }
}

impl Drive<'_, '_> {
    /// Works on the phase until its output has the shape that is asked for, and hands that in.
    pub async fn phase(&mut self, spec: &SpecLaunch, stop: &mut Wish) -> Done {
        let (files, begun) = (Files::of(self.work.launch), Instant::now());
        if let Err(error) = files.lay_out(spec) {
            let failure = Failure::new(
                FailureKind::Crashed,
                format!("the files of the phase cannot be written: {error}"),
            );
            return self.done(CODE_FAILED, Err(failure), None);
        }
        let timestamp = Some(report::now().to_string());
        self.work.outbox.push(SpecPhaseStarted {
            phase: Some(spec.phase),
            timestamp,
            ..SpecPhaseStarted::default()
        });
        let mut retries = 0;
        loop {
            let said = match self.query(stop).await {
                Ended::Finished if self.session.has_mail() => continue,
                Ended::Finished => None,
                Ended::Interrupted => Some(INTERRUPTED.to_owned()),
                Ended::OverBudget(why) => Some(over_budget(&why)),
                Ended::Failed(failure) => return self.phase_failed(spec, retries, failure),
                Ended::Stopped(wish) => return self.phase_stopped(spec, retries, wish).await,
            };
            if let Some(said) = said {
                if let Waited::Stop(wish) = self.wait(&said, None, stop).await {
                    return self.phase_stopped(spec, retries, wish).await;
                }
                continue;
            }
            let looked = files.read(spec).and_then(|text| match shape(spec.phase, &text) {
                Ok(output) => Ok((text, output)),
                Err(error) => Err(error.to_string()),
            });
            let wrong = match looked {
                Ok((text, output)) => {
                    if let Err(failure) = self.hand_in(spec, text, stop).await {
                        return self.phase_failed(spec, retries, failure);
                    }
                    self.phase_completed(spec, retries, &output, begun);
                    return self.done(0, Ok(()), None);
                }
                Err(wrong) => wrong,
            };
            retries += 1;
            if retries >= TRIES_MAX {
                let why = format!(
                    "the output was put right {retries} times and still is not what the phase asks for: {wrong}"
                );
                return self.phase_failed(spec, retries, Failure::new(FailureKind::Agent, why));
            }
            self.tell_retry(spec, retries, &wrong);
            let output = files.output(spec.phase.as_str());
            self.session.note(&prompt::wrong(&output, &wrong));
        }
    }

    /// A server that is away is waited for. Sent twice, it is stored once.
    async fn hand_in(&self, spec: &SpecLaunch, text: String, stop: &mut Wish) -> Result<(), Failure> {
        let (name, content, begun) = (spec_artifact(spec.phase), Bytes::from(text), Instant::now());
        let id = &self.work.launch.sandbox_id;
        let sending = async {
            loop {
                let sent = self.work.client.artifact_create(id, &name, "application/json", content.clone());
                match sent.await {
                    Ok(_) => return Ok(()),
                    Err(error) if error.is_passing() && begun.elapsed() < AWAY_LIMIT => {
                        tokio::time::sleep(AWAY_PAUSE).await;
                    }
                    Err(error) => {
                        let why = format!("the output cannot be handed in: {error}");
                        return Err(Failure::new(FailureKind::Unavailable, why));
                    }
                }
            }
        };
        tokio::select! {
            sent = sending => sent,
            _ = more_than(stop, Stop::Interrupt) => {
                Err(Failure::new(FailureKind::Crashed, "the worker had to leave before the output was handed in"))
            }
        }
    }

    fn phase_completed(&self, spec: &SpecLaunch, retries: u64, output: &Value, begun: Instant) {
        self.work.outbox.push(SpecPhaseCompleted {
            phase: Some(spec.phase),
            duration_seconds: Decimal::new(begun.elapsed().as_secs_f64()),
            retry_count: Some(retries),
            phase_output: Some(clip(output)),
            ..SpecPhaseCompleted::default()
        });
    }

    fn tell_retry(&self, spec: &SpecLaunch, retries: u64, wrong: &str) {
        self.work.outbox.push(SpecPhaseRetry {
            phase: Some(spec.phase),
            reason: Some("output_malformed".to_owned()),
            error: Some(wrong.to_owned()),
            retry_count: Some(retries),
            max_retries: Some(TRIES_MAX),
            ..SpecPhaseRetry::default()
        });
    }

    /// Nothing of the work tree is worth keeping.
    fn phase_failed(&self, spec: &SpecLaunch, retries: u64, failure: Failure) -> Done {
        self.work.outbox.push(SpecPhaseFailed {
            phase: Some(spec.phase),
            reason: Some(failure.kind.to_string()),
            error: Some(failure.message.clone()),
            retry_count: Some(retries),
            ..SpecPhaseFailed::default()
        });
        self.done(CODE_FAILED, Err(failure), None)
    }

    async fn phase_stopped(&self, spec: &SpecLaunch, retries: u64, wish: Stop) -> Done {
        match wish {
            Stop::Interrupt | Stop::Deadline => {
                let done = self.phase_failed(spec, retries, self.work.out_of_time());
                Done { code: CODE_TIMED_OUT, ..done }
            }
            Stop::Leave | Stop::Closed => self.work.ended_early(wish).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use omoi_protocol::SpecPhase;
    use serde_json::json;

    use super::*;

    fn spec() -> SpecLaunch {
        let earlier = json!({ "explore": { "project_type": "library" } });
        SpecLaunch {
            spec_id: "spec-1".parse().unwrap(),
            phase: SpecPhase::Prd,
            title: "Dates".to_owned(),
            description: "Read dates.".to_owned(),
            phase_context: earlier.as_object().unwrap().clone(),
            previous: Some(json!({ "feature_name": "dates" })),
        }
    }

    #[test]
    fn earlier_outputs_lie_beside_the_file_that_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files { dir: dir.path().join("spec") };
        files.lay_out(&spec()).unwrap();
        let read = |path: PathBuf| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
        assert_eq!(read(files.output("explore"))["project_type"], "library");
        assert_eq!(read(files.previous("prd"))["feature_name"], "dates");
        assert!(files.read(&spec()).unwrap_err().contains("there is no"));
        fs::write(files.output("prd"), "{}").unwrap();
        assert_eq!(files.read(&spec()).unwrap(), "{}");
    }

    #[test]
    fn a_file_that_leads_elsewhere_or_is_too_large_is_no_output() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files { dir: dir.path().to_owned() };
        std::os::unix::fs::symlink("/etc/passwd", files.output("prd")).unwrap();
        assert!(files.read(&spec()).unwrap_err().contains("no regular file"));
        fs::remove_file(files.output("prd")).unwrap();
        fs::write(files.output("prd"), vec![b' '; OUTPUT_BYTES_MAX + 10]).unwrap();
        let text = files.read(&spec()).unwrap();
        assert!(shape(SpecPhase::Prd, &text).unwrap_err().to_string().contains("at most"));
    }
}
