//! The table of keys. Each line is the whole truth about one key: its documentation, name, type, the form it is
//! written in, its default, and the environment variables that set it, the first of which wins.

use std::{path::PathBuf, time::Duration};

use omoi_launcher::Layer;
use omoi_protocol::ProviderKind;
use secrecy::SecretString;

use super::{
    DatabaseUrl, Error, HostPort, LogFormat, OnConflict, Secret, ServerRole, SqliteSynchronous, form::*,
    load::Reader,
};
use crate::{
    domain::{
        egress::{Cidr, Pattern},
        money::Usd,
        price::Tariff,
    },
    nearest::nearest,
};

/// What is known of a key before any value is read.
#[derive(Debug)]
pub struct Key {
    /// Dotted: `server.listen`.
    pub name: &'static str,
    pub env: &'static [&'static str],
    pub default: &'static str,
    /// What values it takes, in words.
    pub accepts: &'static str,
    /// Lines, each with the space that follows the comment sign.
    pub(super) doc: &'static [&'static str],
    pub(super) kind: Kind,
}

impl Key {
    pub fn doc(&self) -> String {
        self.doc.concat().trim_start().to_owned()
    }

    pub(super) fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// The key somebody who wrote `name` most likely meant.
    pub(super) fn nearest(name: &str) -> &'static Self {
        let nearest = nearest(name, KEYS.iter().map(|key| key.name));
        nearest.and_then(Self::named).expect("there are keys")
    }
}

macro_rules! key {
    ($name:expr, $type:ty, $form:expr, $default:literal, [$($env:literal),+], [$($doc:literal),+]) => {{
        const FORM: Form<$type> = $form;
        Key { name: $name, env: &[$($env),+], default: $default, doc: &[$($doc),+], accepts: FORM.accepts, kind: FORM.kind }
    }};
}

macro_rules! config {
    (
        Config {
            $($(#[doc = $top_doc:literal])+ $top:ident: $top_type:ty, $top_form:expr, $top_default:literal, $top_env:tt;)+
        }
        $(
            #[doc = $section_doc:literal]
            $section:ident: $Section:ident {
                $($(#[doc = $doc:literal])+ $key:ident: $type:ty, $form:expr, $default:literal, $env:tt;)+
            }
        )+
    ) => {
        /// Everything that can be set, in one value.
        #[derive(Debug, Clone)]
        pub struct Config {
            $($(#[doc = $top_doc])+ pub $top: $top_type,)+
            $(#[doc = $section_doc] pub $section: $Section,)+
        }

        $(
            #[doc = $section_doc]
            #[derive(Debug, Clone)]
            pub struct $Section { $($(#[doc = $doc])+ pub $key: $type,)+ }
        )+

        pub const KEYS: &[Key] = &[
            $(key!(stringify!($top), $top_type, $top_form, $top_default, $top_env, [$($top_doc),+]),)+
            $($(
                key!(concat!(stringify!($section), ".", stringify!($key)), $type, $form, $default, $env, [$($doc),+]),
            )+)+
        ];

        /// Name and documentation of each section.
        pub(super) const SECTIONS: &[(&str, &str)] = &[$((stringify!($section), $section_doc)),+];

        impl Config {
            pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
                Ok(Self {
                    $($top: reader.read(stringify!($top), &$top_form)?,)+
                    $($section: $Section {
                        $($key: reader.read(concat!(stringify!($section), ".", stringify!($key)), &$form)?,)+
                    },)+
                })
            }
        }
    };
}

config! {
    Config {
        /// Where Omoi keeps what it owns: the database, repositories, blobs, and this file as omoi.yaml.
        /// Without HOME the default is ./omoi-data.
        data_dir: PathBuf, PATH, "~/.local/share/omoi", ["OMOI_DATA_DIR"];
    }

    /// The HTTP server.
    server: Server {
        /// Address the server listens on.
        listen: HostPort, HostPort::FORM, "127.0.0.1:18000", ["OMOI_LISTEN"];
        /// Which parts run in this process: all of them, requests alone, or loops alone. Of the earlier system,
        /// ORCHESTRATOR_ENABLED=false means api, and true means all.
        role: ServerRole, ServerRole::FORM, "all", ["OMOI_ROLE", "ORCHESTRATOR_ENABLED"];
        /// Host names that requests may be addressed to, besides localhost and the listen address.
        allowed_hosts: Vec<String>, HOSTS, "", ["OMOI_ALLOWED_HOSTS"];
        /// Origins of web pages, besides the server's own, that may call the API with a token.
        allowed_origins: Vec<String>, ORIGINS, "", ["OMOI_ALLOWED_ORIGINS"];
        /// Address under which workers and people reach the server; empty: the listen address.
        public_url: Option<String>, URL, "", ["OMOI_PUBLIC_URL", "CALLBACK_URL"];
        /// How long requests and loops may take to finish once the process is asked to stop.
        shutdown_grace: Duration, DELAY, "10s", ["OMOI_SHUTDOWN_GRACE"];
    }

    /// The database.
    database: Database {
        /// Which database; empty: SQLite in the data directory.
        url: DatabaseUrl, DatabaseUrl::FORM, "", ["OMOI_DATABASE_URL", "DATABASE_URL"];
        /// Connections held to the database.
        pool_size: usize, count(), "8", ["OMOI_DATABASE_POOL_SIZE", "DATABASE_POOL_SIZE"];
        /// How long to wait for a connection.
        connect_timeout: Duration, PERIOD, "10s", ["OMOI_DATABASE_CONNECT_TIMEOUT", "DATABASE_CONNECT_TIMEOUT"];
        /// How long one statement may take.
        statement_timeout: Duration, PERIOD, "30s", ["OMOI_DATABASE_STATEMENT_TIMEOUT", "DATABASE_COMMAND_TIMEOUT"];
    }

    /// How the embedded store works.
    store: Store {
        /// When SQLite waits for the disk. full: an acknowledged event survives a power cut.
        /// normal: faster, and a power cut may take the last commits.
        sqlite_synchronous: SqliteSynchronous, SqliteSynchronous::FORM, "full", ["OMOI_STORE_SQLITE_SYNCHRONOUS"];
    }

    /// What one caller may ask for. A request beyond a limit is refused and the refusal names the limit.
    limits: Limits {
        /// Size of one event.
        event_bytes_max: usize, SIZE, "1MiB", ["OMOI_LIMITS_EVENT_BYTES_MAX"];
        /// Size of all events that one sandbox reports. Beyond it, only those are taken that show that it lives or
        /// how it ends.
        sandbox_event_bytes_max: usize, SIZE, "1GiB", ["OMOI_LIMITS_SANDBOX_EVENT_BYTES_MAX"];
        /// Size of a request's body.
        body_bytes_max: usize, SIZE, "8MiB", ["OMOI_LIMITS_BODY_BYTES_MAX"];
        /// Events in one request.
        batch_events_max: usize, count(), "1000", ["OMOI_LIMITS_BATCH_EVENTS_MAX"];
        /// Size of one message to a worker.
        message_bytes_max: usize, SIZE, "64KiB", ["OMOI_LIMITS_MESSAGE_BYTES_MAX"];
        /// Writes that may wait for the store.
        write_queue_max: usize, count(), "4096", ["OMOI_LIMITS_WRITE_QUEUE_MAX"];
        /// What all writes that wait may hold together.
        write_queue_bytes_max: usize, SIZE, "256MiB", ["OMOI_LIMITS_WRITE_QUEUE_BYTES_MAX"];
        /// Requests per second of one token, in the long run; 0: no limit.
        requests_per_second: u32, count_or_zero(), "20000", ["OMOI_LIMITS_REQUESTS_PER_SECOND"];
        /// Requests of one token that may come at once.
        request_burst: u32, count(), "40000", ["OMOI_LIMITS_REQUEST_BURST"];
        /// Requests with a wrong token or an ended session per minute from one address.
        failed_logins_per_minute: u32, count(), "30", ["OMOI_LIMITS_FAILED_LOGINS_PER_MINUTE"];
        /// Connections that are open together, live streams among them; more wait.
        connections_max: usize, count(), "8192", ["OMOI_LIMITS_CONNECTIONS_MAX"];
        /// Open live streams.
        viewers_max: usize, count(), "4096", ["OMOI_LIMITS_VIEWERS_MAX"];
        /// Levels of nesting in JSON that comes in.
        json_depth_max: usize, JSON_DEPTH, "64", ["OMOI_LIMITS_JSON_DEPTH_MAX"];
        /// How long one request may take, live streams excepted.
        request_timeout: Duration, PERIOD, "30s", ["OMOI_LIMITS_REQUEST_TIMEOUT"];
    }

    /// Who may act for a task, and for how long.
    lease: Lease {
        /// How long a sandbox holds its task after it was last heard of.
        duration: Duration, PERIOD, "2m", ["OMOI_LEASE_DURATION"];
        /// The shortest lease that a sandbox may ask for when it is attached.
        request_min: Duration, PERIOD, "10s", ["OMOI_LEASE_REQUEST_MIN"];
        /// The longest lease that a sandbox may ask for when it is attached.
        request_max: Duration, PERIOD, "24h", ["OMOI_LEASE_REQUEST_MAX"];
        /// How much longer, where this server made it and sees that its worker runs.
        unreachable_after: Duration, DELAY, "10m", ["OMOI_LEASE_UNREACHABLE_AFTER"];
        /// How long after the end of its lease a sandbox may still report. Until another sandbox takes the task, its reports count.
        late_report_grace: Duration, DELAY, "1h", ["OMOI_LEASE_LATE_REPORT_GRACE"];
    }

    /// Messages to workers.
    message: Message {
        /// When a delivered message that was not acknowledged is offered again.
        offer_again_after: Duration, PERIOD, "30s", ["OMOI_MESSAGE_OFFER_AGAIN_AFTER"];
        /// How often one message is offered before it expires.
        deliveries_max: u32, count(), "5", ["OMOI_MESSAGE_DELIVERIES_MAX"];
        /// How old a message may get before it expires.
        expire_after: Duration, PERIOD, "24h", ["OMOI_MESSAGE_EXPIRE_AFTER"];
        /// How long a worker's request for messages may wait for one.
        long_poll_max: Duration, DELAY, "30s", ["OMOI_MESSAGE_LONG_POLL_MAX"];
        /// Messages that may wait for one worker.
        queue_max: usize, count(), "1000", ["OMOI_MESSAGE_QUEUE_MAX"];
    }

    /// Sandboxes that this server makes.
    sandbox: Sandbox {
        /// Where they are made: local is this machine.
        provider: ProviderKind, PROVIDER, "local", ["OMOI_SANDBOX_PROVIDER"];
        /// Memory of one, in GiB, where neither who asks for it nor the project says; at most 8.
        memory_gb: u32, MEMORY_GB, "4",
            ["OMOI_SANDBOX_MEMORY_GB", "SANDBOX_MEMORY_GB", "DAYTONA_SANDBOX_MEMORY_GB"];
        /// Processors of one, likewise; at most 4.
        cpu: u32, CPU, "2", ["OMOI_SANDBOX_CPU", "SANDBOX_CPU", "DAYTONA_SANDBOX_CPU"];
        /// Disk of one, in GiB, likewise; at most 10.
        disk_gb: u32, DISK_GB, "8",
            ["OMOI_SANDBOX_DISK_GB", "SANDBOX_DISK_GB", "DAYTONA_SANDBOX_DISK_GB"];
        /// Image of `omoi image list`; empty: the system directories of the machine, read-only.
        image: Option<String>, TEXT, "", ["OMOI_SANDBOX_IMAGE", "SANDBOX_IMAGE"];
        /// Preferred to the image by providers that have snapshots; local has none.
        snapshot: Option<String>, TEXT, "", ["OMOI_SANDBOX_SNAPSHOT", "SANDBOX_SNAPSHOT"];
        /// Processes and threads of one.
        pids_max: u32, count(), "2048", ["OMOI_SANDBOX_PIDS_MAX"];
        /// What is kept of the output of one's worker.
        log_bytes_max: usize, SIZE, "8MiB", ["OMOI_SANDBOX_LOG_BYTES_MAX"];
        /// Lets the agent be root inside, in a user namespace of its own, so that it can install packages.
        root_inside: bool, SWITCH, "false", ["OMOI_SANDBOX_ROOT_INSIDE"];
        /// Accepts limits per process where limits per sandbox cannot be had.
        allow_soft_limits: bool, SWITCH, "false", ["OMOI_SANDBOX_ALLOW_SOFT_LIMITS"];
        /// Accepts one user id for all sandboxes where each cannot have its own.
        allow_shared_id: bool, SWITCH, "false", ["OMOI_SANDBOX_ALLOW_SHARED_ID"];
        /// Refuses to run where the kernel cannot cap the disk.
        require_disk_cap: bool, SWITCH, "false", ["OMOI_SANDBOX_REQUIRE_DISK_CAP"];
        /// Layers of isolation that count as missing, to see what then happens; see `omoi doctor`.
        deny_layers: Vec<Layer>, LAYERS, "", ["OMOI_SANDBOX_DENY_LAYERS"];
        /// How long a worker may take to end once it is asked to; five seconds of it are left to the sandbox itself.
        stop_grace: Duration, DELAY, "25s", ["OMOI_SANDBOX_STOP_GRACE"];
        /// Sandboxes that are made, or removed, at the same time.
        steps_at_once: usize, count(), "8", ["OMOI_SANDBOX_STEPS_AT_ONCE"];
        /// Ended sandboxes whose work is rescued at the same time. Repeated tries take at most half of these.
        rescues_at_once: usize, count(), "8", ["OMOI_SANDBOX_RESCUES_AT_ONCE"];
        /// How many of these one project may take; one is always left to the other projects.
        rescues_per_project: usize, count(), "6", ["OMOI_SANDBOX_RESCUES_PER_PROJECT"];
        /// How often the rescue of one sandbox is tried. After that its disk stays until a person decides
        /// (`omoi sandbox rescue`, `omoi sandbox discard`).
        rescue_tries: u32, count(), "8", ["OMOI_SANDBOX_RESCUE_TRIES"];
        /// The longest wait between two tries. The first wait is two seconds, and each is twice as long as the one before.
        rescue_wait_max: Duration, DELAY, "5m", ["OMOI_SANDBOX_RESCUE_WAIT_MAX"];
        /// How long what is left of an ended sandbox stays on its machine, for whoever wants to look into it; 0: not at
        /// all. Its work is kept before, and stays.
        keep_ended: Duration, DELAY, "0s", ["OMOI_SANDBOX_KEEP_ENDED"];
        /// How many ended sandboxes stay at most; the oldest go first.
        keep_ended_max: usize, count_or_zero(), "32", ["OMOI_SANDBOX_KEEP_ENDED_MAX"];
        /// What all ended sandboxes may take of the disk together.
        keep_ended_bytes_max: usize, SIZE, "10GiB", ["OMOI_SANDBOX_KEEP_ENDED_BYTES_MAX"];
        /// Free space on the disk of the data directory below which ended sandboxes go early.
        disk_free_min: usize, SIZE, "2GiB", ["OMOI_SANDBOX_DISK_FREE_MIN"];
        /// The program that makes local sandboxes; empty: omoi-launcher beside omoi.
        launcher: Option<PathBuf>, PATH_OR_NONE, "", ["OMOI_SANDBOX_LAUNCHER"];
        /// The program that runs inside; empty: omoi-worker beside omoi.
        worker: Option<PathBuf>, PATH_OR_NONE, "", ["OMOI_SANDBOX_WORKER"];
    }

    /// The agent in a sandbox, where neither the project (settings.agent) nor the task (execution_config.agent) says.
    worker: Worker {
        /// The model that it asks.
        model: String, MODEL, "claude-sonnet-4-5", ["OMOI_WORKER_MODEL", "ANTHROPIC_MODEL"];
        /// How long it waits for more messages once its work is done.
        idle: Duration, IDLE, "0s", ["OMOI_WORKER_IDLE"];
    }

    /// Live streams of events.
    live: Live {
        /// How long a viewer may take nothing before it is disconnected.
        viewer_stall_timeout: Duration, PERIOD, "10s", ["OMOI_LIVE_VIEWER_STALL_TIMEOUT"];
        /// Recent events kept in memory; a viewer further behind reads from the store.
        ring_events: usize, count(), "8192", ["OMOI_LIVE_RING_EVENTS"];
        /// Memory that they may take; the oldest go earlier where they are large.
        ring_bytes: usize, SIZE, "64MiB", ["OMOI_LIVE_RING_BYTES"];
        /// How often a quiet stream is pinged.
        ping_interval: Duration, PERIOD, "30s", ["OMOI_LIVE_PING_INTERVAL"];
        /// How long events are collected before they are sent together; 0: not at all.
        coalesce: Duration, DELAY, "10ms", ["OMOI_LIVE_COALESCE"];
    }

    /// Further attempts at a failed task. The wait doubles from base to cap, give or take the jitter.
    retry: Retry {
        /// Attempts after the first, where the task does not say.
        max_retries: u32, count_or_zero(), "3", ["OMOI_RETRY_MAX_RETRIES"];
        /// Wait before the second attempt.
        base: Duration, DELAY, "1s", ["OMOI_RETRY_BASE"];
        /// Longest wait.
        cap: Duration, DELAY, "1m", ["OMOI_RETRY_CAP"];
        /// Share of the wait by which it is made longer or shorter at random.
        jitter: f64, FRACTION, "0.25", ["OMOI_RETRY_JITTER"];
    }

    /// Which pending task goes next: the one with the highest score, a weighted sum of shares from 0 to 1.
    task_queue: TaskQueue {
        /// Weight of the priority.
        weight_priority: f64, FRACTION, "0.45", ["OMOI_TASK_QUEUE_WEIGHT_PRIORITY", "TQ_W_P"];
        /// Weight of the time waited.
        weight_age: f64, FRACTION, "0.2", ["OMOI_TASK_QUEUE_WEIGHT_AGE", "TQ_W_A"];
        /// Weight of the deadline's nearness.
        weight_deadline: f64, FRACTION, "0.15", ["OMOI_TASK_QUEUE_WEIGHT_DEADLINE", "TQ_W_D"];
        /// Weight of the number of tasks that wait for this one.
        weight_blockers: f64, FRACTION, "0.15", ["OMOI_TASK_QUEUE_WEIGHT_BLOCKERS", "TQ_W_B"];
        /// Weight of the attempts left.
        weight_retry: f64, FRACTION, "0.05", ["OMOI_TASK_QUEUE_WEIGHT_RETRY", "TQ_W_R"];
        /// Waiting longer than this counts no more.
        age_cap: Duration, PERIOD, "1h", ["OMOI_TASK_QUEUE_AGE_CAP", "TQ_AGE_CEILING"];
        /// A deadline nearer than this counts, and boosts the score.
        deadline_slack: Duration, PERIOD, "15m", ["OMOI_TASK_QUEUE_DEADLINE_SLACK", "TQ_SLA_URGENCY_WINDOW"];
        /// More waiting tasks than this count no more.
        blocker_cap: u32, count(), "10", ["OMOI_TASK_QUEUE_BLOCKER_CAP", "TQ_BLOCKER_CEILING"];
        /// What the score of a task near its deadline is multiplied by.
        deadline_boost: f64, BOOST, "1.25", ["OMOI_TASK_QUEUE_DEADLINE_BOOST", "TQ_SLA_BOOST_MULTIPLIER"];
        /// A task that waited longer than this scores at least the floor.
        starvation_age: Duration, PERIOD, "2h", ["OMOI_TASK_QUEUE_STARVATION_AGE", "TQ_STARVATION_LIMIT"];
        /// The least score of a task that waited too long.
        starvation_floor: f64, FRACTION, "0.6", ["OMOI_TASK_QUEUE_STARVATION_FLOOR", "TQ_STARVATION_FLOOR_SCORE"];
        /// Tasks of one project that may be assigned or running together.
        max_concurrent_per_project: u32, count(), "5",
            ["OMOI_TASK_QUEUE_MAX_CONCURRENT_PER_PROJECT", "MAX_CONCURRENT_TASKS_PER_PROJECT"];
    }

    /// Sandboxes for tasks that nobody has to start.
    dispatch: Dispatch {
        /// Whether tasks of projects that do not say (settings.autonomous) get their sandboxes without anybody asking.
        /// Where they do not, agents elsewhere claim them, or a person starts them.
        autonomous: bool, SWITCH, "true", ["OMOI_DISPATCH_AUTONOMOUS", "DAYTONA_SANDBOX_EXECUTION"];
        /// Sandboxes with a task that may live together, in all projects.
        max_live: u32, count(), "8", ["OMOI_DISPATCH_MAX_LIVE"];
    }

    /// Sandboxes with a task that get nowhere are ended, and their work is kept.
    supervise: Supervise {
        /// Whether they are looked at.
        enabled: bool, SWITCH, "true", ["OMOI_SUPERVISE_ENABLED", "IDLE_DETECTION_ENABLED"];
        /// How often.
        period: Duration, PERIOD, "30s", ["OMOI_SUPERVISE_PERIOD", "IDLE_CHECK_INTERVAL_SECONDS"];
        /// How long one may have nothing to do, beyond the time that it was told to stay.
        idle_after: Duration, PERIOD, "10m", ["OMOI_SUPERVISE_IDLE_AFTER", "IDLE_THRESHOLD_MINUTES"];
        /// How long one may be at work while neither its events nor its processes show any.
        stuck_after: Duration, PERIOD, "15m", ["OMOI_SUPERVISE_STUCK_AFTER"];
        /// How long one may wait for a person: interrupted, or with no money left.
        waiting_after: Duration, PERIOD, "24h", ["OMOI_SUPERVISE_WAITING_AFTER"];
    }

    /// A look across sandboxes: who gets in whose way, and who does the same work.
    conductor: Conductor {
        /// Whether it looks.
        enabled: bool, SWITCH, "true", ["OMOI_CONDUCTOR_ENABLED"];
        /// How often at least; a changed file or branch makes it look sooner.
        period: Duration, PERIOD, "1m", ["OMOI_CONDUCTOR_PERIOD"];
        /// The least time between two looks.
        settle: Duration, PERIOD, "1s", ["OMOI_CONDUCTOR_SETTLE"];
        /// Whether agents whose tasks get in each other's way are told (tell), or people alone (note).
        on_conflict: OnConflict, OnConflict::FORM, "tell", ["OMOI_CONDUCTOR_ON_CONFLICT"];
        /// Trial merges of one look; further ones wait for the next.
        merges_max: usize, count_or_zero(), "50", ["OMOI_CONDUCTOR_MERGES_MAX"];
        /// How long completed work that is not merged is still looked at.
        finished_for: Duration, PERIOD, "24h", ["OMOI_CONDUCTOR_FINISHED_FOR"];
        /// How alike two tasks are, from 0 to 1, to be taken for the same work.
        duplicate_from: f64, FRACTION, "0.7", ["OMOI_CONDUCTOR_DUPLICATE_FROM"];
    }

    /// Figures over time, and what is unusual in them.
    monitor: Monitor {
        /// Whether they are taken.
        enabled: bool, SWITCH, "true", ["OMOI_MONITOR_ENABLED"];
        /// How often.
        period: Duration, PERIOD, "30s", ["OMOI_MONITOR_PERIOD"];
    }

    /// What agents do is judged while they do it, and something is done about it.
    guardian: Guardian {
        /// Whether it watches.
        enabled: bool, SWITCH, "true", ["OMOI_GUARDIAN_ENABLED"];
        /// How often it looks at what is new.
        period: Duration, PERIOD, "1s", ["OMOI_GUARDIAN_PERIOD"];
        /// The policy (YAML) of projects that have none of their own; without it, the one that comes with the program.
        policy: Option<PathBuf>, PATH_OR_NONE, "", ["OMOI_GUARDIAN_POLICY"];
    }

    /// A model that is asked now and then whether an agent keeps to its task. When that is, policies say.
    judge: Judge {
        /// Whether it is asked. It costs money, and nothing else needs it.
        enabled: bool, SWITCH, "false", ["OMOI_JUDGE_ENABLED", "MONITORING_LLM_ANALYSIS_ENABLED"];
        /// The model. scripted/judge is played by the server, needs no key and always thinks the same.
        model: String, MODEL, "claude-sonnet-4-5", ["OMOI_JUDGE_MODEL"];
        /// What all judgements of 24 hours may cost together; 0: no limit. The budgets of projects count them too, those of
        /// attempts and tasks do not.
        day_budget_usd: Usd, USD, "5", ["OMOI_JUDGE_DAY_BUDGET_USD"];
        /// How long one may take.
        timeout: Duration, PERIOD, "1m", ["OMOI_JUDGE_TIMEOUT"];
        /// Questions that may be under way together in one process.
        at_once: usize, count(), "5", ["OMOI_JUDGE_AT_ONCE", "MONITORING_MAX_CONCURRENT_ANALYSES"];
    }

    /// How long what happened is kept. What sandboxes have made is always kept.
    retention: Retention {
        /// Days that the log of what sandboxes reached for outside is kept.
        egress_days: u32, DAYS, "30", ["OMOI_RETENTION_EGRESS_DAYS"];
    }

    /// Agents that somebody runs elsewhere, and how their silence is judged.
    agent: Agent {
        /// How long an idle agent's heartbeat counts.
        heartbeat_ttl_idle: Duration, PERIOD, "30s", ["OMOI_AGENT_HEARTBEAT_TTL_IDLE"];
        /// How long a running agent's heartbeat counts.
        heartbeat_ttl_running: Duration, PERIOD, "15s", ["OMOI_AGENT_HEARTBEAT_TTL_RUNNING"];
        /// Heartbeats missed in a row after which an agent is degraded.
        missed_degraded: u32, count(), "2", ["OMOI_AGENT_MISSED_DEGRADED"];
        /// Heartbeats missed in a row after which an agent has failed.
        missed_failed: u32, count(), "3", ["OMOI_AGENT_MISSED_FAILED"];
        /// How often an agent that has failed may register again under its name within an hour.
        restarts_max: u32, count(), "3", ["OMOI_AGENT_RESTARTS_MAX"];
        /// How long an agent that has failed waits before it may register again under its name.
        restart_cooldown: Duration, PERIOD, "1m", ["OMOI_AGENT_RESTART_COOLDOWN"];
    }

    /// Projects' repositories, and Git for sandboxes.
    git: Git {
        /// Token for fetching over https from the hosts below; empty: none.
        token: Option<SecretString>, SECRET, "", ["OMOI_GIT_TOKEN", "GITHUB_TOKEN", "INTEGRATIONS_GITHUB_TOKEN"];
        /// Hosts that are shown the token.
        token_hosts: Vec<String>, HOSTS, "github.com", ["OMOI_GIT_TOKEN_HOSTS"];
        /// Ranges of private addresses that operators may fetch repositories from. Without it only administrators may
        /// name a host that is not of the public internet.
        allow_private: Vec<Cidr>, list("a list of address ranges such as 10.20.0.0/16"), "", ["OMOI_GIT_ALLOW_PRIVATE"];
        /// Directories of this machine that operators may fetch repositories from, with all below them. Without it only
        /// administrators may name a path. Anyone who can write to such a directory can make the server fetch any
        /// repository that the server's user can read.
        allow_paths: Vec<PathBuf>, PATHS, "", ["OMOI_GIT_ALLOW_PATHS"];
        /// How long one fetch, push or checkout may take.
        timeout: Duration, PERIOD, "10m", ["OMOI_GIT_TIMEOUT"];
        /// Fetches and pushes of sandboxes that may run at once.
        packs_max: usize, count(), "16", ["OMOI_GIT_PACKS_MAX"];
        /// Size of what one push may bring.
        push_bytes_max: usize, SIZE, "100MiB", ["OMOI_GIT_PUSH_BYTES_MAX"];
        /// Size of the files of a commit that may be checked out.
        checkout_bytes_max: usize, SIZE, "4GiB", ["OMOI_GIT_CHECKOUT_BYTES_MAX"];
        /// Number of files of a commit that may be checked out.
        checkout_files_max: usize, count(), "500000", ["OMOI_GIT_CHECKOUT_FILES_MAX"];
        /// Checkouts that no sandbox uses and that are kept for the next.
        checkouts_kept: usize, count_or_zero(), "16", ["OMOI_GIT_CHECKOUTS_KEPT"];
        /// How long a checkout that no sandbox uses is kept.
        checkout_age_max: Duration, PERIOD, "168h", ["OMOI_GIT_CHECKOUT_AGE_MAX"];
    }

    /// What sandboxes may reach outside, through the proxy that is their only way out.
    egress: Egress {
        /// Hosts that projects without a list of their own (settings.egress_allow) may reach: example.com,
        /// *.example.com for all below it, or host:port. Empty: none.
        allow: Vec<Pattern>, list("a list of hosts such as example.com, *.example.com or example.com:8443"),
            "", ["OMOI_EGRESS_ALLOW"];
        /// Ports of a host that is allowed without naming one.
        ports: Vec<u16>, PORTS, "80,443", ["OMOI_EGRESS_PORTS"];
        /// Ranges of private addresses that may be reached all the same, if the host is allowed. What is in them is
        /// open to every sandbox whose list names it, the services of this machine included.
        allow_private: Vec<Cidr>, list("a list of address ranges such as 10.20.0.0/16"), "", ["OMOI_EGRESS_ALLOW_PRIVATE"];
        /// Whether projects may ask for an open network (settings.network: open).
        open_allowed: bool, SWITCH, "false", ["OMOI_EGRESS_OPEN_ALLOWED"];
        /// Open connections of one sandbox.
        connections_max: usize, count(), "128", ["OMOI_EGRESS_CONNECTIONS_MAX"];
        /// Size of a request's head.
        head_bytes_max: usize, SIZE, "32KiB", ["OMOI_EGRESS_HEAD_BYTES_MAX"];
        /// How long a request's head may take to arrive.
        head_timeout: Duration, PERIOD, "10s", ["OMOI_EGRESS_HEAD_TIMEOUT"];
        /// How long finding and reaching a host may take.
        connect_timeout: Duration, PERIOD, "10s", ["OMOI_EGRESS_CONNECT_TIMEOUT"];
        /// How long a connection may carry nothing before it is closed.
        idle_timeout: Duration, PERIOD, "5m", ["OMOI_EGRESS_IDLE_TIMEOUT"];
    }

    /// Model calls of sandboxes, which reach a vendor through the server: it adds the key and counts the cost.
    model: Model {
        /// Where the Anthropic Messages API is, without /v1; any compatible address will do.
        anthropic_base_url: String, BASE_URL, "https://api.anthropic.com",
            ["OMOI_MODEL_ANTHROPIC_BASE_URL", "ANTHROPIC_BASE_URL"];
        /// The key for it. Empty: sandboxes cannot call it.
        anthropic_api_key: Secret, Secret::FORM, "", ["OMOI_MODEL_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"];
        /// Where the OpenAI API is, with its /v1; any compatible address will do.
        openai_base_url: String, BASE_URL, "https://api.openai.com/v1",
            ["OMOI_MODEL_OPENAI_BASE_URL", "OPENAI_BASE_URL"];
        /// The key for it. Empty: sandboxes cannot call it.
        openai_api_key: Secret, Secret::FORM, "", ["OMOI_MODEL_OPENAI_API_KEY", "OPENAI_API_KEY"];
        /// Prices of models, in USD per million tokens of input, output, cache read and cache write; the last two may
        /// be left out. The first that fits counts. The list prices of Claude and OpenAI models are known and come
        /// behind these; a model without a price has the dearest of all.
        prices: Vec<Tariff>, PRICES, "", ["OMOI_MODEL_PRICES"];
        /// What one attempt may spend, where its task sets no max_total_cost_usd; 0: no limit.
        attempt_budget_usd: Usd, USD, "20", ["OMOI_MODEL_ATTEMPT_BUDGET_USD"];
        /// What all attempts at one task may spend together, where the task sets no budget_usd; 0: no limit.
        task_budget_usd: Usd, USD, "0", ["OMOI_MODEL_TASK_BUDGET_USD"];
        /// What one project may spend, where its settings have no budget_usd; 0: no limit.
        project_budget_usd: Usd, USD, "0", ["OMOI_MODEL_PROJECT_BUDGET_USD"];
        /// Size of one request to a model.
        body_bytes_max: usize, SIZE, "32MiB", ["OMOI_MODEL_BODY_BYTES_MAX"];
        /// Size of one answer of a model; a longer one is cut off. Agents ask for less by max_tokens.
        answer_bytes_max: usize, SIZE, "64MiB", ["OMOI_MODEL_ANSWER_BYTES_MAX"];
        /// Calls of one sandbox that may be under way together.
        sandbox_calls_max: usize, count(), "16", ["OMOI_MODEL_SANDBOX_CALLS_MAX"];
        /// Calls of all sandboxes that may be under way together in one process.
        calls_max: usize, count(), "128", ["OMOI_MODEL_CALLS_MAX"];
        /// How long to wait for a connection to the vendor.
        connect_timeout: Duration, PERIOD, "10s", ["OMOI_MODEL_CONNECT_TIMEOUT"];
        /// How long to wait for the beginning of an answer.
        first_byte_timeout: Duration, PERIOD, "10m", ["OMOI_MODEL_FIRST_BYTE_TIMEOUT"];
        /// How long an answer that has begun may pause.
        chunk_timeout: Duration, PERIOD, "2m", ["OMOI_MODEL_CHUNK_TIMEOUT"];
        /// How long one call may take in all.
        call_timeout: Duration, PERIOD, "1h", ["OMOI_MODEL_CALL_TIMEOUT"];
        /// Directory of scenarios of one's own (NAME.yaml), which models called scripted/NAME play besides those that
        /// come with Omoi; they need no key and cost nothing unless they say so. Empty: none.
        scenarios: Option<PathBuf>, PATH_OR_NONE, "", ["OMOI_MODEL_SCENARIOS"];
        /// How many times faster scenarios are played: what their delays are divided by.
        scenario_speed: f64, SPEED, "1", ["OMOI_MODEL_SCENARIO_SPEED"];
    }

    /// The log, on standard error.
    log: Log {
        /// Lines for people, or one JSON object per line.
        format: LogFormat, LogFormat::FORM, "human", ["OMOI_LOG_FORMAT"];
        /// What is logged: a level, or levels by module.
        filter: String, LOG_FILTER, "info", ["OMOI_LOG", "RUST_LOG"];
    }

    /// What is told to outside observers.
    telemetry: Telemetry {
        /// OTLP collector that traces are sent to over HTTP, such as http://localhost:4318; empty: none.
        otlp_endpoint: Option<String>, URL, "", ["OMOI_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
    }
}
