//! SWE-agent's `.traj`: a list of steps with thought, action and observation. It tells neither times of day nor exit
//! codes; a failure shows in what the shell wrote.

use omoi_protocol::event::StoredEvent;
use serde_json::{Map, Value, json};

use super::{
    super::shell,
    ledger::{Ledger, LineError, Verdict},
    make::Make,
};

pub fn events(page: &Map<String, Value>) -> (Vec<StoredEvent>, Ledger) {
    let mut ledger = Ledger::default();
    let mut make = Make::new();
    make.started("swe-agent", None);
    let history = page.get("history").and_then(Value::as_array);
    let told =
        history.into_iter().flatten().find(|message| message["role"] == "user" && message["is_demo"] != true);
    if let Some(message) = told {
        make.told(&text(&message["content"]));
    }
    for (number, step) in steps(page).iter().enumerate() {
        let before = make.len();
        make.now(None);
        one(&mut make, number, step);
        let verdict = match () {
            () if make.is_full() => Verdict::Broken(LineError::TooManyEvents),
            () if make.len() == before => Verdict::Broken(LineError::Misshapen),
            () => Verdict::Understood,
        };
        ledger.book(verdict, make.len() > before);
    }
    if ledger.used == 0 {
        return (Vec::new(), ledger);
    }
    let info = page.get("info").unwrap_or(&Value::Null);
    let (status, stats) = (info["exit_status"].as_str().unwrap_or_default(), &info["model_stats"]);
    let tokens = |key: &str| stats[key].as_u64().unwrap_or(0);
    let usd = stats["instance_cost"].as_f64();
    make.spent(tokens("tokens_sent"), tokens("tokens_received"), usd.unwrap_or(0.0));
    make.ended(status == "submitted", status, usd);
    (make.done(), ledger)
}

struct Step {
    thought: String,
    action: String,
    observation: String,
    seconds: f64,
}

/// The steps as such, or, in files that are kept as demonstrations, out of the conversation.
fn steps(page: &Map<String, Value>) -> Vec<Step> {
    let own = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().trim().to_owned();
    if let Some(list) = page.get("trajectory").and_then(Value::as_array) {
        let step = |step: &Value| Step {
            thought: own(step, "thought"),
            action: own(step, "action"),
            observation: text(&step["observation"]),
            seconds: step["execution_time"].as_f64().unwrap_or(0.0),
        };
        return list.iter().map(step).collect();
    }
    let history = page.get("history").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let pairs =
        history.windows(2).filter(|pair| pair[0]["role"] == "assistant" && pair[0]["action"].is_string());
    let step = |pair: &[Value]| Step {
        thought: own(&pair[0], "thought"),
        action: own(&pair[0], "action"),
        observation: text(&pair[1]["content"]),
        seconds: 0.0,
    };
    pairs.map(step).collect()
}

fn one(make: &mut Make, number: usize, step: &Step) {
    let id = format!("step-{number}");
    make.said(&step.thought, None);
    if step.action.is_empty() {
        return;
    }
    make.call("Bash", &id, &json!({ "command": step.action }), None);
    make.pass(step.seconds);
    let failed = fails(&step.observation);
    make.result(&id, &step.observation, failed);
    if !failed {
        edited(make, &step.action, &step.observation);
    }
}

/// The editor is a command, and its texts are words of it.
fn edited(make: &mut Make, action: &str, observation: &str) {
    // The older editor changes the file that is open, and shows it.
    let open =
        observation.split_once("[File: ").and_then(|(_, rest)| rest.split_once(" (")).map(|(path, _)| path);
    for simple in shell::commands(action) {
        let word = |at: usize| simple.words.get(at).map_or("", String::as_str);
        let option = |name: &str| {
            let at = simple.words.iter().position(|word| word == name)?;
            simple.words.get(at + 1).map(String::as_str)
        };
        match (word(0), word(1)) {
            ("str_replace_editor" | "edit_anthropic", "create") => {
                make.edited(word(2), None, option("--file_text"));
            }
            ("str_replace_editor" | "edit_anthropic", "str_replace") => {
                make.edited(
                    word(2),
                    Some(option("--old_str").unwrap_or("")),
                    Some(option("--new_str").unwrap_or("")),
                );
            }
            ("str_replace_editor" | "edit_anthropic", "insert") => {
                make.edited(word(2), Some(""), option("--new_str"));
            }
            ("edit", _) => {
                let range = simple.words.len() != 3;
                let (old, new) = if range { ("", action) } else { (word(1), word(2)) };
                open.into_iter().for_each(|path| make.edited(path, Some(old), Some(new)));
                // What follows a range of lines is text.
                return;
            }
            _ => {}
        }
    }
}

fn fails(observation: &str) -> bool {
    let signs = [
        "Traceback (most recent call last)",
        "command not found",
        "No such file or directory",
        "Your proposed edit has introduced",
        "No replacement was performed",
        "FAILED (",
        "EXECUTION TIMED OUT",
        "SyntaxError:",
    ];
    let head = observation.get(..4_000).unwrap_or(observation);
    signs.iter().any(|sign| head.contains(sign))
}

/// Text, or parts of it.
fn text(value: &Value) -> String {
    match value {
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}
