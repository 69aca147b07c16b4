//! The program `omoi-launcher`: makes sandboxes, kills and removes them, and says what the machine can do. It has one thread,
//! reads no configuration and no environment, and what it makes outlives it.

mod bench;
mod host;
mod inside;
mod probe;
mod refuse;
mod remove;
mod run;
mod sys;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use omoi_launcher::{Answer, Layer, PLAN_BYTES_MAX, Plan};

use crate::refuse::refusal;

const USAGE: &str = "usage: omoi-launcher run < PLAN | probe [--cache DIR] | kill DIR | remove DIR\n       \
                     omoi-launcher bench --count N --cache DIR";

fn main() -> ExitCode {
    // Whatever the caller left open would stay open for as long as the sandbox lives.
    let _ = sys::close_from(3, false);
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let arguments: Vec<&Path> = arguments.iter().map(PathBuf::as_path).collect();
    let word = |index: usize| arguments.get(index).and_then(|path| path.to_str());
    match (word(0), &arguments[..]) {
        (Some("run"), [_]) => run_plan(),
        (Some("probe"), [_]) => print(&probe::probe(Path::new("/var/tmp")), true),
        (Some("probe"), [_, _, cache]) if word(1) == Some("--cache") => print(&probe::probe(cache), true),
        (Some("bench"), [_, _, _, _, cache]) if (word(1), word(3)) == (Some("--count"), Some("--cache")) => {
            measure(cache, word(2).unwrap_or_default())
        }
        (Some("kill"), [_, dir]) => done(remove::kill(dir)),
        (Some("remove"), [_, dir]) => done(remove::remove(dir)),
        _ => {
            complain(USAGE);
            ExitCode::from(2)
        }
    }
}

/// Waits for something that the kernel does by itself and tells nobody about.
#[expect(clippy::disallowed_methods, reason = "there is one thread and no event to wait for")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

fn run_plan() -> ExitCode {
    let mut text = Vec::new();
    let read = std::io::stdin().take(PLAN_BYTES_MAX).read_to_end(&mut text);
    let answer = match read
        .map_err(|error| error.to_string())
        .and_then(|_| serde_json::from_slice::<Plan>(&text).map_err(|error| error.to_string()))
    {
        Ok(plan) => run::run(plan),
        Err(error) => Answer::Refused(refusal(
            Layer::Plan,
            format_args!("not understood: {error}"),
            "see the type Plan",
        )),
    };
    print(&answer, !matches!(answer, Answer::Refused(_)))
}

fn measure(cache: &Path, count: &str) -> ExitCode {
    let Ok(count) = count.parse() else {
        complain(USAGE);
        return ExitCode::from(2);
    };
    match bench::bench(cache, count) {
        Ok(measured) => print(&measured, true),
        Err(refused) => done(Err(refused)),
    }
}

fn done(result: refuse::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(refused) => {
            complain(&refused.to_string());
            ExitCode::FAILURE
        }
    }
}

fn print(answer: &impl serde::Serialize, good: bool) -> ExitCode {
    let mut text = serde_json::to_vec(answer).unwrap_or_default();
    text.push(b'\n');
    let said = std::io::stdout().write_all(&text).is_ok();
    if good && said { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "omoi-launcher: {text}");
}
