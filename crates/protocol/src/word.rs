//! The closed sets of words: statuses, kinds and types. Each is spelt once and the same everywhere.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not a {set}; it is one of {known}")]
pub struct WordError {
    pub set: &'static str,
    pub word: String,
    pub known: &'static str,
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident, $set:literal { $($(#[$vdoc:meta])* $variant:ident = $word:tt),+ $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = WordError;
            fn from_str(word: &str) -> Result<Self, WordError> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(WordError { set: $set, word: word.to_owned(), known: concat!($($word, " "),+).trim_ascii_end() }),
                }
            }
        }
    )*};
}

words! {
    Priority, "priority" { Critical = "CRITICAL", High = "HIGH", Medium = "MEDIUM", Low = "LOW" }

    TicketType, "ticket type" {
        Feature = "feature", Bug = "bug", Refactor = "refactor", Docs = "docs", Test = "test", Chore = "chore",
    }

    TicketStatus, "ticket status" {
        Backlog = "backlog", Analyzing = "analyzing", Building = "building", BuildingDone = "building-done",
        Testing = "testing", Done = "done", Cancelled = "cancelled",
    }

    TaskStatus, "task status" {
        Pending = "pending", Assigned = "assigned", Running = "running",
        Completed = "completed", Failed = "failed", Cancelled = "cancelled",
    }

    /// Why a pending task has no sandbox.
    WaitingFor, "reason to wait" {
        /// Tasks before it are not completed.
        Dependencies = "dependencies",
        /// A retry waits for its time.
        NotBefore = "not_before",
        Archived = "archived",
        /// Somebody has paused its project.
        Paused = "paused",
        /// It asks for what only an attached agent can do.
        Capabilities = "capabilities",
        NoRepository = "no_repository",
        /// Its model belongs to a vendor whose key the server does not have.
        ModelKey = "model_key",
        /// Somebody has to start it.
        NotAutonomous = "not_autonomous",
        /// What its last attempt left is being kept.
        Keeping = "keeping",
        ProjectLimit = "project_limit",
        GlobalLimit = "global_limit",
    }

    SandboxStatus, "sandbox status" {
        /// Claimed; the place for it is being made.
        Creating = "creating",
        /// Its worker has reported.
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        /// The lease ran out; the task has gone on without it.
        Lost = "lost",
        /// Somebody or something ended it.
        Terminated = "terminated",
    }

    /// Where a sandbox is that the server itself makes and removes.
    Place, "place" {
        /// Somebody else runs it.
        None = "none",
        /// It is to be made.
        Wanted = "wanted",
        /// It is there.
        Up = "up",
        /// Its work could not be kept. Its disk stays until a person has it rescued again or discards it.
        Unkept = "unkept",
        /// A person discarded its work; what is left of it is to be removed.
        Discarded = "discarded",
        /// It has stopped and its work is kept; what is left of it is to be removed.
        Kept = "kept",
        Gone = "gone",
    }

    CommandState, "command state" { Pending = "pending", Running = "running", Done = "done" }

    SpecStatus, "spec status" {
        Draft = "draft",
        /// A phase is worked on or judged, or the tasks that came of it are.
        Executing = "executing",
        /// A person has to approve a phase.
        Waiting = "waiting",
        Completed = "completed",
        Failed = "failed",
    }

    /// What the last attempt at a phase has come to.
    PhaseState, "state of a phase" {
        /// Worked on, or about to be judged.
        Running = "running",
        /// Good enough, and nobody has to look at it.
        Passed = "passed",
        Failed = "failed",
        /// Good enough; a person has to approve it.
        Waiting = "waiting",
        Approved = "approved",
        /// What it was built on has changed since.
        Stale = "stale",
    }

    /// Which phases a spec goes through.
    SpecFlow, "flow" {
        /// All of them.
        Full = "full",
        /// A small change: its tasks at once.
        Quick = "quick",
        /// Reproduce, find the cause, fix, guard.
        Bugfix = "bugfix",
    }

    /// What a person decided about a phase.
    PhaseDecision, "decision" { Approved = "approved", ChangesRequested = "changes_requested", Edited = "edited" }

    /// How the branch stands that holds all of a spec.
    SpecBranchState, "branch state" {
        /// It is about to be made.
        Wanted = "wanted",
        /// It holds the work of all tasks that are completed.
        Merged = "merged",
        /// It holds what goes together; the rest conflicts or builds on what does.
        Conflict = "conflict",
        /// No task has left anything to merge.
        Empty = "empty",
        /// It could not be made.
        Failed = "failed",
    }

    /// What became of a task's work on the way into the branch of its spec.
    MergeOutcome, "merge outcome" {
        Merged = "merged",
        /// What was merged before it holds it already.
        Contained = "contained",
        Conflict = "conflict",
        /// It builds on a task that is not in.
        LeftOut = "left_out",
        /// The task is not completed, or has left no commit.
        Nothing = "nothing",
    }

    /// What is decided about a task that may exist already.
    DuplicateDecision, "duplicate decision" {
        /// The existing task stands in its place.
        Link = "link",
        /// It is other work, and is done.
        Keep = "keep",
    }

    SpecPhase, "spec phase" {
        Explore = "explore", Prd = "prd", Requirements = "requirements",
        Design = "design", Tasks = "tasks", Sync = "sync",
    }

    /// Where sandboxes live.
    ProviderKind, "provider" {
        Local = "local", Docker = "docker", Daytona = "daytona", Kubernetes = "kubernetes", External = "external",
    }

    /// How two tasks get in each other's way, the surest last.
    ConflictKind, "kind of conflict" {
        /// Both change a file, and nobody knows which lines.
        Files = "files",
        /// Both change the same lines, or lines that touch.
        Lines = "lines",
        /// Their branches do not merge.
        Merge = "merge",
    }

    /// What the radar says of two.
    PairState, "state of a pair" {
        /// Not tried yet.
        Unknown = "unknown",
        Clear = "clear",
        Files = "files",
        Lines = "lines",
        Merge = "merge",
    }

    SystemStatus, "system status" {
        NoAgents = "no_agents", Critical = "critical", Warning = "warning", Inefficient = "inefficient",
        Normal = "normal", Optimal = "optimal",
    }

    /// Where a project's repository may be fetched from, which follows from who set its address.
    RepositoryReach, "reach of a repository" {
        /// Hosts of the public internet, and what an administrator has opened.
        Public = "public",
        /// Anything that the server can reach: an administrator set the address.
        Any = "any",
    }

    DiskState, "state of a disk" {
        Ok = "ok",
        /// One sandbox may fill what is left.
        Low = "low",
        /// Nothing is stored until there is room.
        Full = "full",
    }

    AnomalySeverity, "severity of an anomaly" { Warning = "warning", Error = "error", Critical = "critical" }

    AnomalyType, "type of anomaly" { Spike = "spike", Drop = "drop" }

    /// How far back figures go.
    MetricRange, "range" { Hour = "1h", Day = "24h", Week = "7d" }

    EventSource, "event source" { Agent = "agent", Worker = "worker", System = "system" }

    MessageType, "message type" {
        UserMessage = "user_message", Interrupt = "interrupt", GuardianNudge = "guardian_nudge", System = "system",
        /// Another agent of the same project speaks.
        AgentMessage = "agent_message",
    }

    /// What one agent wants of another.
    Telling, "kind of telling" {
        Info = "info", Question = "question", Answer = "answer",
        HandoffRequest = "handoff_request", HandoffAccepted = "handoff_accepted", HandoffDeclined = "handoff_declined",
    }

    /// Who may talk to whom within a project.
    Collaboration, "rule of collaboration" {
        Off = "off",
        /// Agents whose tasks are of one ticket, or depend on each other.
        Related = "related",
        Project = "project",
    }

    /// What is done to work by authority.
    ActionKind, "kind of action" {
        CancelTask = "cancel_task", OverridePriority = "override_priority",
        ReallocateCapacity = "reallocate_capacity", Pause = "pause", Resume = "resume",
    }

    DiagnosisState, "diagnosis state" {
        /// It waits for a person.
        Open = "open",
        Accepted = "accepted",
        Dismissed = "dismissed",
        /// The ticket went on without.
        Overtaken = "overtaken",
    }

    ProposalKind, "kind of proposal" {
        /// The task that failed is offered again.
        Retry = "retry",
        /// A new task is made.
        Task = "task",
    }

    MessageState, "message state" {
        Queued = "queued",
        /// Handed to the worker, not yet in front of the agent.
        Delivered = "delivered",
        /// In front of the agent.
        Injected = "injected",
        Acknowledged = "acknowledged",
        Expired = "expired",
    }

    /// Why an attempt failed; decides whether and when it is tried again.
    FailureKind, "failure kind" {
        /// The agent gave up or reported an error of its own.
        Agent = "agent",
        /// Declared checks ran and did not pass.
        Checks = "checks",
        /// A limit of turns, money or time was reached.
        Limit = "limit",
        /// The worker fell silent and its lease ran out.
        Lost = "lost",
        /// The worker's process ended by itself.
        Crashed = "crashed",
        /// The worker was told to leave before the work was done, by a signal.
        ShutDown = "shut_down",
        OutOfMemory = "out_of_memory",
        TimedOut = "timed_out",
        /// The sandbox could not be made.
        Spawn = "spawn",
        /// Model, network or forge were not to be reached.
        Unavailable = "unavailable",
        /// Configuration, permission or input that a repeat would meet again.
        Invalid = "invalid",
    }

    /// Why a sandbox ended: one word for each way.
    EndReason, "end reason" {
        /// By its own word, where it held no task.
        Completed = "completed",
        /// The task's work is done, and its checks are next.
        WorkCompleted = "work_completed",
        TaskCompleted = "task_completed",
        Agent = "agent",
        ChecksFailed = "checks_failed",
        Limit = "limit",
        /// It is no longer where it was.
        Lost = "lost",
        Crashed = "crashed",
        /// A signal told its worker to leave.
        ShutDown = "shut_down",
        OutOfMemory = "out_of_memory",
        TimedOut = "timed_out",
        Spawn = "spawn",
        Unavailable = "unavailable",
        Invalid = "invalid",
        /// It fell silent.
        LeaseExpired = "lease_expired",
        /// It had nothing to do for too long.
        IdleTimeout = "idle_timeout",
        /// It was at work for too long and nothing came of it.
        StuckRunning = "stuck_running",
        TaskCancelled = "task_cancelled",
        /// Somebody ended it.
        Terminated = "terminated",
        /// Somebody ended what nobody used.
        Pruned = "pruned",
    }

    /// Why what is left of an ended sandbox is removed.
    Removal, "reason of a removal" {
        /// It was there for as long as it is to be.
        Age = "age",
        TooMany = "too_many",
        /// Together they take more of the disk than they may.
        DiskUse = "disk_use",
        /// The disk is nearly full.
        DiskFree = "disk_free",
        /// Its work could not be kept, and a person discarded it.
        Discarded = "discarded",
    }

    ResultType, "result type" {
        Implementation = "implementation", Analysis = "analysis", Fix = "fix",
        Design = "design", Test = "test", Documentation = "documentation",
    }

    /// What is done with a task next: the work itself, or the checks that prove it.
    Stage, "stage" { Work = "work", Check = "check" }

    /// Whether an outcome has been proven.
    Verification, "verification" { Unverified = "unverified", Verified = "verified", Disputed = "disputed" }

    /// What an operator's token allows. Each role includes those before it.
    Role, "role" { Viewer = "viewer", Operator = "operator", Admin = "admin" }

    /// How far an attached agent may be relied on.
    AgentStatus, "agent status" { Idle = "idle", Running = "running", Degraded = "degraded", Failed = "failed" }

    /// What became of a request to the outside.
    EgressDecision, "egress decision" {
        Allowed = "allowed",
        /// By a rule; nothing was sent.
        Refused = "refused",
        /// Allowed, but the host could not be reached.
        Failed = "failed",
    }

    /// What the first bytes of a tunnel were.
    EgressTls, "egress TLS" {
        /// A TLS handshake that named its host, which was allowed or the tunnel refused.
        Named = "named",
        /// One that named none.
        Unnamed = "unnamed",
        NotTls = "not_tls",
    }
    /// Whose model API a call speaks.
    Vendor, "vendor" { Anthropic = "anthropic", Openai = "openai" }

    /// How the API of a model refuses a call.
    ModelFailure, "model failure" {
        /// It does not accept the server's key.
        KeyInvalid = "key_invalid",
        /// The key's account has no credit, or has used up its quota.
        NoCredit = "no_credit",
        RateLimited = "rate_limited",
        /// It does not have the model, or not for this key.
        ModelNotFound = "model_not_found",
        /// The key, the account or the region may not do this.
        NotAllowed = "not_allowed",
        Overloaded = "overloaded",
        ContextTooLong = "context_too_long",
        /// The content is against its policy.
        ContentRefused = "content_refused",
        /// Something else is wrong with the request.
        InvalidRequest = "invalid_request",
        /// Something is wrong with the API itself.
        Unavailable = "unavailable",
    }

    CallState, "call state" {
        /// Under way.
        Open = "open",
        /// Answered to the end.
        Done = "done",
        /// The sandbox hung up before the end.
        HungUp = "hung_up",
        /// The vendor did not answer, or not to the end.
        Broken = "broken",
        /// The server that made the call ended before it.
        Lost = "lost",
    }

    /// Whom a model call is for.
    CallPurpose, "purpose of a call" {
        /// The agent in the sandbox.
        Work = "work",
        /// Whoever judges the agent. It counts in all sums, and not towards the budgets of attempt and task.
        Judge = "judge",
    }

    /// What a budget is of, from the narrowest on.
    BudgetLevel, "budget level" { Attempt = "attempt", Task = "task", Project = "project" }

    /// What becomes of a task when one it depends on fails or is cancelled.
    DependencyPolicy, "dependency policy" { Block = "block", Skip = "skip", Fail = "fail" }

    /// What supervision can find in the work of an agent.
    FindingKind, "kind of finding" {
        /// The same call with the same result, again and again.
        RepeatedAction = "repeated_action",
        /// The same few calls in turn.
        AlternatingActions = "alternating_actions",
        /// One error that several tries have not changed.
        SameError = "same_error",
        /// A file that goes back and forth between the same contents.
        EditUndo = "edit_undo",
        /// Nothing new comes of what is done, or nothing is done at all.
        NoProgress = "no_progress",
        /// Changes outside of the files that the task declares.
        Drift = "drift",
        /// What a person said is not followed.
        IgnoredInstruction = "ignored_instruction",
        UnansweredQuestion = "unanswered_question",
        ForbiddenCommand = "forbidden_command",
        /// Tests that check less than before.
        TestWeakening = "test_weakening",
        /// Money or tokens spent for nothing.
        BudgetBurn = "budget_burn",
        RunawaySubagents = "runaway_subagents",
        /// It says that it works, and the last that was seen of it is a failure.
        FalseClaim = "false_claim",
        /// The judge says that it has left its course.
        Misaligned = "misaligned",
    }

    FindingSeverity, "severity" { Notice = "notice", Warning = "warning", Critical = "critical" }

    /// How much an agent has to be steered, in the judge's view.
    SteeringType, "type of steering" {
        /// A hint.
        Guidance = "guidance",
        /// It is on the wrong way.
        Correction = "correction",
        /// It does harm.
        Emergency = "emergency",
    }

    JudgementState, "state of a judgement" {
        /// The model has not answered yet.
        Asked = "asked",
        Done = "done",
        /// Nobody knows what the model thinks, which is no good sign.
        Failed = "failed",
    }

    /// Why the judge is asked.
    JudgementCause, "cause of a judgement" {
        /// A detector is not sure.
        Unsure = "unsure",
        /// It is time.
        Period = "period",
        /// Somebody wants to know.
        Person = "person",
    }

    JudgementFailure, "failure of a judgement" {
        /// The money for it is used up, so it was not asked.
        Budget = "budget",
        /// No answer came.
        Unavailable = "unavailable",
        /// None came in time.
        TimedOut = "timed_out",
        /// The model declined.
        Declined = "declined",
        /// The answer is none.
        Malformed = "malformed",
    }

    /// What supervision does about a finding, from the mildest on.
    Intervention, "intervention" {
        /// Writes it down.
        Note = "note",
        /// Tells the agent, which goes on.
        Nudge = "nudge",
        /// Asks a person.
        Ask = "ask",
        /// Stops the turn and tells the agent what to do.
        Interrupt = "interrupt",
        /// Stops the turn until a person lets it go on.
        Pause = "pause",
        Terminate = "terminate",
    }

    /// How far supervision goes by itself.
    Steering, "steering" {
        /// Findings are written down.
        Off = "off",
        /// Interventions wait for a person.
        Suggest = "suggest",
        On = "on",
    }

    /// Whether an intervention is made.
    InterventionMode, "mode of an intervention" {
        /// It is written down.
        Record = "record",
        /// It waits for a person.
        Suggest = "suggest",
        /// It is made.
        Act = "act",
    }

    /// Why no more than a note is made of a finding.
    HeldReason, "reason to hold back" {
        SteeringOff = "steering_off",
        CoolDown = "cool_down",
        Limit = "limit",
        /// Nobody is there any more to be told.
        Ended = "ended",
        /// Another intervention is made at the same moment.
        OneAtATime = "one_at_a_time",
    }

    /// How far an intervention has come. One that speaks follows its message.
    InterventionState, "state of an intervention" {
        /// It is a note.
        Recorded = "recorded",
        /// It waits for a person.
        Suggested = "suggested",
        /// Its message is queued.
        Sent = "sent",
        Delivered = "delivered",
        Injected = "injected",
        Acknowledged = "acknowledged",
        /// It needs no message, and is made.
        Done = "done",
        Dismissed = "dismissed",
        /// Nobody heard it, or decided about it, in time.
        Expired = "expired",
        Failed = "failed",
    }

    /// What an intervention has come to.
    SteeringEffect, "effect" {
        Changed = "changed",
        Unchanged = "unchanged",
        /// Nobody heard it, or the run ended before it could be told.
        Unknown = "unknown",
    }

    /// What ended a finding.
    ClearedBy, "end of a finding" {
        /// The behaviour is another.
        Changed = "changed",
        /// The sandbox has ended.
        Ended = "ended",
    }

    /// How well live sandboxes do, together.
    SystemHealth, "health" { Optimal = "optimal", Good = "good", Warning = "warning", Critical = "critical" }

    /// Where a policy comes from.
    PolicySource, "source of a policy" { Default = "default", Server = "server", Project = "project" }
}

impl TaskStatus {
    /// Nothing changes such a task any more, except that a failed or cancelled one may be retried.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl From<FailureKind> for EndReason {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Agent => Self::Agent,
            FailureKind::Checks => Self::ChecksFailed,
            FailureKind::Limit => Self::Limit,
            FailureKind::Lost => Self::Lost,
            FailureKind::Crashed => Self::Crashed,
            FailureKind::ShutDown => Self::ShutDown,
            FailureKind::OutOfMemory => Self::OutOfMemory,
            FailureKind::TimedOut => Self::TimedOut,
            FailureKind::Spawn => Self::Spawn,
            FailureKind::Unavailable => Self::Unavailable,
            FailureKind::Invalid => Self::Invalid,
        }
    }
}

impl SandboxStatus {
    /// It may hold its task.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Creating | Self::Running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_spelt_alike_in_text_and_json() {
        for status in TaskStatus::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
            assert_eq!(status.as_str().parse::<TaskStatus>().as_ref(), Ok(status));
        }
        let error = "urgent".parse::<Priority>().unwrap_err();
        assert_eq!(error.to_string(), r#""urgent" is not a priority; it is one of CRITICAL HIGH MEDIUM LOW"#);
    }
}
