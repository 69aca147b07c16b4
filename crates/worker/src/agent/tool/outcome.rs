//! How a command ended, in words for the model and in fields for the record.

use std::time::Duration;

use omoi_protocol::event::CommandStream;
use serde_json::{Value, json};

use super::{
    bash::TIMEOUT_MAX,
    capture::Capture,
    shell::{Course, Why, list},
    tools::Done,
};
use crate::end::End;

const SIGKILL: i32 = 9;

pub struct Outcome {
    pub course: Course,
    /// None for one that nothing could end.
    pub end: Option<End>,
    /// Something in the sandbox was killed for want of memory meanwhile.
    pub oom: bool,
    pub limit: Duration,
}

impl Outcome {
    pub async fn told(&self, mut capture: Capture) -> Done {
        let output = capture.text().await;
        let notes = self.notes();
        let mut content = output.trim_end_matches('\n').to_owned();
        if content.is_empty() && notes.is_empty() {
            content.push_str("(no output)");
        }
        for note in &notes {
            content.push_str(if content.is_empty() { "[" } else { "\n[" });
            content.push_str(note);
            content.push(']');
        }
        let well = self.course.why == Why::Itself && self.end.is_some_and(|end| end.is_success());
        Done {
            content,
            is_error: !well,
            response: self.response(&capture),
            exit_code: self.end.and_then(|end| end.exit_code),
            interrupted: self.course.why == Why::Stopped,
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let killed = self.end.is_some_and(|end| i32::from(end.code()) == 128 + SIGKILL);
        match (self.course.why, self.end) {
            (Why::Stopped, _) => notes.push("the command was interrupted and ended".to_owned()),
            (Why::Late, _) => notes.push(format!(
                "the command was ended after {} ms, its time limit; give a longer timeout (up to {} ms), or set \
                 run_in_background",
                self.limit.as_millis(),
                TIMEOUT_MAX.as_millis()
            )),
            (Why::Itself, None) => notes.push("how the command ended is not known".to_owned()),
            (Why::Itself, Some(_)) if killed && self.oom => {
                notes.push("killed, because the sandbox has no more memory; let the command use less".to_owned());
            }
            (Why::Itself, Some(end)) => match (end.signal, end.exit_code) {
                (Some(signal), _) => notes.push(format!("the command was killed by signal {signal}")),
                (_, Some(0)) => {}
                (_, Some(code)) if killed => {
                    notes.push(format!("exit code {code}: something in the command was killed by signal 9"));
                }
                (_, code) => notes.push(format!("exit code {}", code.unwrap_or(-1))),
            },
        }
        if self.oom && !(killed && self.course.why == Why::Itself) {
            notes.push("something in the sandbox was killed for want of memory meanwhile".to_owned());
        }
        match self.course.left.as_slice() {
            [] => {}
            left => notes.push(format!(
                "the command left {} running, which was ended; what is to go on is started with run_in_background",
                list(left)
            )),
        }
        if self.course.stuck > 0 {
            notes.push(format!("{} of its processes could not be ended", self.course.stuck));
        }
        notes
    }

    fn response(&self, capture: &Capture) -> Value {
        json!({
            "stdout": capture.stream(&CommandStream::Stdout),
            "stderr": capture.stream(&CommandStream::Stderr),
            "exit_code": self.end.and_then(|end| end.exit_code),
            "signal": self.end.and_then(|end| end.signal),
            "interrupted": self.course.why == Why::Stopped,
            "timed_out": self.course.why == Why::Late,
            "out_of_memory": self.oom,
            "left_running": self.course.left.len(),
            "output_file": capture.file(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn want_of_memory_and_other_ends_are_told_apart() {
        let notes = |why, exit_code, signal, oom| {
            let course = Course { why, status: None, left: Vec::new(), stuck: 0 };
            let end = Some(End { exit_code, signal, out_of_memory: oom });
            Outcome { course, end, oom, limit: Duration::from_secs(1) }.notes().join("; ")
        };
        for (why, exit_code, signal, oom, expected) in [
            (Why::Itself, Some(0), None, false, ""),
            (Why::Itself, Some(2), None, false, "exit code 2"),
            (Why::Itself, None, Some(9), true, "no more memory"),
            (Why::Itself, Some(137), None, true, "no more memory"),
            (Why::Itself, None, Some(9), false, "killed by signal 9"),
            (Why::Itself, None, Some(11), false, "killed by signal 11"),
            (
                Why::Itself,
                Some(1),
                None,
                true,
                "exit code 1; something in the sandbox was killed for want of memory",
            ),
            (Why::Itself, Some(0), None, true, "killed for want of memory"),
            (Why::Late, None, Some(9), false, "1000 ms, its time limit"),
            (Why::Stopped, None, Some(15), false, "interrupted"),
        ] {
            let told = notes(why, exit_code, signal, oom);
            assert!(
                told.contains(expected) && told.is_empty() == expected.is_empty(),
                "{told:?} {expected:?}"
            );
            assert!(!(why == Why::Late && told.contains("memory")));
        }
    }
}
