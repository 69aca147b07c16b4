//! Where a run is acted out: turns of an agent as events, with the time and the tokens that they take.

use omoi_protocol::event::{
    AgentHeartbeat, AgentMessageInjected, AgentSubagentCompleted, BudgetExceeded, Decimal, FileChange,
    StoredEvent,
};
use serde_json::{Value, json};

use super::{
    super::import::Make,
    dice::Dice,
    kit::{KITS, Kit},
};

pub struct Scene {
    pub make: Make,
    pub dice: Dice,
    pub kit: &'static Kit,
    /// Names of calls are unique in a run, also where two runs are put together.
    prefix: &'static str,
    calls: u32,
    cpu_seconds: f64,
}

impl Scene {
    pub fn new(mut dice: Dice, prefix: &'static str) -> Self {
        let kit = dice.pick(&KITS);
        Self { make: Make::new(), dice, kit, prefix, calls: 0, cpu_seconds: 0.0 }
    }

    pub fn done(self) -> Vec<StoredEvent> {
        self.make.done()
    }

    /// A call of the model, with what it says.
    pub fn say(&mut self, text: &str) {
        let (seconds, input, output) =
            (self.dice.range(1, 6), self.dice.range(800, 4_000), self.dice.range(20, 300));
        self.make.pass(seconds as f64);
        self.make.spent(input as u64, output as u64, 0.002);
        self.make.said(text, None);
    }

    fn next_id(&mut self) -> String {
        self.calls += 1;
        format!("{}-{}", self.prefix, self.calls)
    }

    /// A turn with a command of a shell.
    pub fn bash(&mut self, say: &str, command: &str, output: &str, failed: bool) {
        let id = self.open(say, command);
        let seconds = self.dice.range(1, 4);
        self.make.pass(seconds as f64);
        self.make.result(&id, output, failed);
    }

    /// A command that goes on.
    pub fn open(&mut self, say: &str, command: &str) -> String {
        self.say(say);
        let id = self.next_id();
        self.make.call("Bash", &id, &json!({ "command": command, "description": say }), None);
        id
    }

    pub fn read(&mut self, path: &str, output: &str) {
        self.call("Read", &json!({ "file_path": path }), output);
    }

    /// A turn with a call that succeeds.
    pub fn call(&mut self, tool: &str, input: &Value, output: &str) {
        self.say(&format!("I use {tool}."));
        let id = self.next_id();
        self.make.call(tool, &id, input, None);
        self.make.pass(1.0);
        self.make.result(&id, output, false);
    }

    /// A change of a file that is there, by its diff.
    pub fn edit(&mut self, say: &str, path: &str, diff: &str) {
        self.say(say);
        self.change(path, diff);
    }

    /// A further change in the same turn.
    pub fn change(&mut self, path: &str, diff: &str) {
        let id = self.next_id();
        self.make.call("Edit", &id, &json!({ "file_path": path, "diff": diff }), None);
        self.make.pass(1.0);
        self.make.result(&id, "The file has been updated.", false);
        self.make.patched(path, FileChange::Modified, diff);
    }

    pub fn helper(&mut self, say: &str, prompt: &str) -> String {
        self.say(say);
        let id = self.next_id();
        self.make.helper(&id, prompt);
        id
    }

    pub fn helper_done(&mut self, id: &str) {
        self.make.pass(20.0);
        let tool_use_id = Some(id.to_owned());
        self.make.push(AgentSubagentCompleted { tool_use_id, ..AgentSubagentCompleted::default() });
    }

    /// A person speaks to the agent.
    pub fn told(&mut self, text: &str) {
        self.make.pass(2.0);
        self.make.push(AgentMessageInjected {
            content: Some(text.to_owned()),
            message_type: Some("user_message".to_owned()),
            sender_id: Some("ann".to_owned()),
            ..AgentMessageInjected::default()
        });
    }

    /// Minutes pass in which the processes of the sandbox take this share of a processor.
    pub fn wait(&mut self, minutes: usize, load: f64) {
        for _ in 0..minutes * 2 {
            self.make.pass(30.0);
            self.cpu_seconds += 30.0 * load;
            self.make.push(AgentHeartbeat {
                cpu_seconds: Decimal::new(self.cpu_seconds),
                io_bytes: Some(0),
                processes: Some(2),
                ..AgentHeartbeat::default()
            });
        }
    }

    pub fn over_budget(&mut self) {
        self.make.push(BudgetExceeded::default());
    }

    pub fn end(&mut self, text: &str) {
        self.say(text);
        self.make.halted(text);
        self.make.ended(true, text, None);
    }
}
