//! Everything the agent can call, and who answers: its tools, helpers, skills, and servers of the project.

use std::{ops::Range, time::Duration};

use omoi_protocol::outcome::Tokens;
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use super::{
    context::Context,
    mcp::Mcp,
    model::{Answer, Ask, Model, Progress},
    peer::{PEERS, Peers},
    skill::Skill,
    subagent::{Asked, Helper, Report},
    talk::{Block, Message, ToolSpec},
    tell::Tell,
    tool::{Around, Call, Done, Effect, Piece, Tools},
};

const TASK: &str = "Task";
const SKILL: &str = "Skill";
/// How long a server of the project may take for one call.
const SERVER_LIMIT: Duration = Duration::from_secs(600);
const HELPER_TURNS_MAX: u64 = 40;

pub struct Kit {
    pub tools: Tools,
    pub helpers: Vec<Helper>,
    pub skills: Vec<Skill>,
    pub servers: Mcp,
    /// Helpers have none: they speak to who asked them.
    pub peers: Option<Peers>,
    pub allowed: Option<Vec<String>>,
    pub disallowed: Vec<String>,
}

/// What a call may use.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    pub model: &'a Model,
    pub tell: &'a Tell,
    pub turn: u64,
    pub answer_tokens: u32,
    /// True: end what runs, now.
    pub stop: &'a watch::Receiver<bool>,
    pub group: &'a watch::Sender<Option<i32>>,
}

impl Kit {
    pub fn specs(&self) -> Vec<ToolSpec> {
        let mut specs = self.tools.specs();
        if !self.helpers.is_empty() {
            specs.push(task_spec(&self.helpers));
        }
        if !self.skills.is_empty() {
            specs.push(skill_spec());
        }
        if self.peers.is_some() {
            specs.push(Peers::spec());
        }
        specs.extend(self.servers.specs());
        specs.retain(|spec| self.is_allowed(&spec.name));
        specs
    }

    fn is_allowed(&self, name: &str) -> bool {
        let among = |list: &[String]| list.iter().any(|one| one == name);
        self.allowed.as_deref().is_none_or(among) && !among(&self.disallowed)
    }

    pub fn effect(&self, name: &str, input: &Value) -> Effect {
        match name {
            SKILL | PEERS => Effect::Reads,
            TASK => {
                let helper = self.helpers.iter().find(|one| input["subagent_type"] == one.name.as_str());
                let reads = |tool: &String| self.tools.effect(tool) == Effect::Reads;
                match helper {
                    Some(helper) if !helper.tools.is_empty() && helper.tools.iter().all(reads) => {
                        Effect::Reads
                    }
                    _ => Effect::Writes,
                }
            }
            name => self.tools.effect(name),
        }
    }

    /// Calls that only read run side by side, all others one after the other: the ranges of `calls` that do.
    pub fn groups(&self, calls: &[Call<'_>]) -> Vec<Range<usize>> {
        let mut groups: Vec<Range<usize>> = Vec::new();
        let mut reading = false;
        for (at, call) in calls.iter().enumerate() {
            let reads = self.effect(call.name, call.input) == Effect::Reads;
            match groups.last_mut() {
                Some(group) if reads && reading => group.end = at + 1,
                _ => groups.push(at..at + 1),
            }
            reading = reads;
        }
        groups
    }

    /// Runs one call and tells of it.
    pub async fn run(&self, call: Call<'_>, broken: Option<&String>, means: Means<'_>) -> Done {
        means.tell.call(means.turn, call);
        let begun = Instant::now();
        let (done, report) = match broken {
            Some(why) => (failed(format!("the arguments of this call cannot be read: {why}")), None),
            None => self.dispatch(call, means).await,
        };
        means.tell.done(means.turn, call, &done, report.as_ref(), begun.elapsed());
        done
    }

    async fn dispatch(&self, call: Call<'_>, means: Means<'_>) -> (Done, Option<Report>) {
        match call.name {
            _ if !self.is_allowed(call.name) => (failed(format!("{} is not allowed here", call.name)), None),
            TASK => match Asked::parse(call.input) {
                Ok(asked) => {
                    let (done, usage) = Box::pin(self.ask(call.id, &asked, means)).await;
                    (done, Some(Report::new(asked, usage)))
                }
                Err(why) => (failed(why), None),
            },
            SKILL => (self.skill(call.input), None),
            PEERS => (self.reach(call.input).await, None),
            name if name.starts_with("mcp__") => (self.serve(call, means).await, None),
            _ => {
                let listen = |piece: Piece<'_>| means.tell.piece(call.id, &piece);
                let around = Around { stop: means.stop.clone(), group: means.group, listen: &listen };
                (self.tools.run(&call, &around).await, None)
            }
        }
    }

    fn skill(&self, input: &Value) -> Done {
        let name = input["skill"].as_str().unwrap_or_default();
        match self.skills.iter().find(|skill| skill.name == name) {
            Some(skill) => succeeded(skill.text()),
            None => {
                let known: Vec<&str> = self.skills.iter().map(|skill| skill.name.as_str()).collect();
                failed(format!("there is no skill {name:?}; there are {}", known.join(", ")))
            }
        }
    }

    async fn reach(&self, input: &Value) -> Done {
        match &self.peers {
            Some(peers) => peers.call(input).await.map_or_else(failed, succeeded),
            None => failed("there is nobody to speak to from here".to_owned()),
        }
    }

    async fn serve(&self, call: Call<'_>, means: Means<'_>) -> Done {
        let mut stop = means.stop.clone();
        tokio::select! {
            answer = self.servers.call(call.name, call.input, SERVER_LIMIT) => match answer {
                Ok((text, false)) => succeeded(text),
                Ok((text, true)) | Err(text) => failed(text),
            },
            _ = stop.wait_for(|stop| *stop) => interrupted(),
        }
    }

    /// Lets a helper work until it has nothing more to call.
    async fn ask(&self, id: &str, asked: &Asked, means: Means<'_>) -> (Done, Tokens) {
        let mut usage = Tokens::default();
        let Some(helper) = self.helpers.iter().find(|helper| helper.name == asked.subagent_type) else {
            let known: Vec<&str> = self.helpers.iter().map(|helper| helper.name.as_str()).collect();
            let why = format!("there is no helper {:?}; there are {}", asked.subagent_type, known.join(", "));
            return (failed(why), usage);
        };
        let kit = self.narrowed(helper);
        let tell = means.tell.below(id);
        let system = format!(
            "{}\n\nYou work for another agent, which reads nothing of yours but your last words: end with a full report.",
            helper.prompt
        );
        let specs = kit.specs();
        let mut context = Context::new(vec![Message::user(vec![Block::text(asked.prompt.clone())])]);
        let mut stop = means.stop.clone();
        for turn in 1..=HELPER_TURNS_MAX {
            let ask = Ask {
                system: &system,
                tools: &specs,
                messages: context.messages(),
                max_tokens: means.answer_tokens,
            };
            let mut progress = |progress: Progress<'_>| tell.progress(turn, &progress);
            let answer = tokio::select! {
                answer = means.model.ask(&ask, &mut progress) => answer,
                _ = stop.wait_for(|stop| *stop) => return (interrupted(), usage),
            };
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => return (failed(format!("the helper could not go on: {error}")), usage),
            };
            usage += answer.usage;
            tell.answer(turn, &answer);
            let calls = calls(&answer);
            if calls.is_empty() {
                return (succeeded(text(&answer)), usage);
            }
            let mut results = Vec::new();
            for group in kit.groups(&calls) {
                let means = Means { tell: &tell, turn, ..means };
                let runs = calls[group].iter().map(|call| async {
                    let done = Box::pin(kit.run(*call, answer.broken.get(call.id), means)).await;
                    result(call.id, &done)
                });
                results.extend(futures_util::future::join_all(runs).await);
            }
            context.push(Message::assistant(answer.content));
            context.push(Message::user(results));
            if *stop.borrow() {
                return (interrupted(), usage);
            }
        }
        (failed(format!("the helper has had its {HELPER_TURNS_MAX} turns and did not come to an end")), usage)
    }

    /// With what a helper may use; no helper asks another.
    fn narrowed(&self, helper: &Helper) -> Self {
        let own: Vec<String> = self.tools.specs().into_iter().map(|spec| spec.name).collect();
        let wanted = if helper.tools.is_empty() { own } else { helper.tools.clone() };
        let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
        Self {
            tools: self.tools.only(&names),
            helpers: Vec::new(),
            skills: Vec::new(),
            servers: Mcp::default(),
            peers: None,
            allowed: self.allowed.clone(),
            disallowed: self.disallowed.clone(),
        }
    }
}

/// The calls of an answer, in their order.
pub fn calls(answer: &Answer) -> Vec<Call<'_>> {
    let calls = answer.content.iter().filter_map(|block| match block {
        Block::ToolUse { id, name, input } => Some(Call { id, name, input }),
        _ => None,
    });
    calls.collect()
}

/// What an answer says.
pub fn text(answer: &Answer) -> String {
    let texts = answer.content.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// What the model is shown of a call.
pub fn result(id: &str, done: &Done) -> Block {
    Block::ToolResult { tool_use_id: id.to_owned(), content: done.content.clone(), is_error: done.is_error }
}

fn succeeded(content: String) -> Done {
    Done {
        response: json!({ "chars": content.chars().count() }),
        content,
        is_error: false,
        exit_code: None,
        interrupted: false,
    }
}

pub fn failed(content: String) -> Done {
    Done {
        response: json!({ "error": content }),
        content,
        is_error: true,
        exit_code: None,
        interrupted: false,
    }
}

pub fn interrupted() -> Done {
    Done { interrupted: true, ..failed("interrupted before it was done".to_owned()) }
}

fn task_spec(helpers: &[Helper]) -> ToolSpec {
    let names: Vec<&str> = helpers.iter().map(|helper| helper.name.as_str()).collect();
    ToolSpec {
        name: TASK.to_owned(),
        description: "Asks a helper with a fresh mind to do one thing and report. It sees nothing of this conversation: say in the prompt all that it needs to know and what it should report."
            .to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "description": { "type": "string", "description": "What it is about, in 3 to 5 words" },
                "prompt": { "type": "string", "description": "The whole of what is asked" },
                "subagent_type": { "type": "string", "enum": names },
            },
            "required": ["description", "prompt", "subagent_type"],
        }),
    }
}

fn skill_spec() -> ToolSpec {
    ToolSpec {
        name: SKILL.to_owned(),
        description: "Loads the instructions of a skill.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": { "skill": { "type": "string", "description": "Its name" } },
            "required": ["skill"],
        }),
    }
}
