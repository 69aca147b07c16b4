-- Read by SQLite and PostgreSQL alike: column types are PostgreSQL's, which SQLite takes by affinity.
-- Times are microseconds since 1970, truth values 0 or 1, JSON is text.

CREATE TABLE projects (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    repository_url TEXT,
    default_branch TEXT NOT NULL,
    max_concurrent BIGINT,
    settings TEXT NOT NULL,
    tickets_made BIGINT NOT NULL,
    -- How many of its tasks have a live sandbox, so that a claim need not count.
    live_sandboxes BIGINT NOT NULL,
    archived BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX projects_by_name ON projects (name);

CREATE TABLE tickets (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    number BIGINT NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    ticket_type TEXT NOT NULL,
    priority TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX tickets_by_number ON tickets (project_id, number);
CREATE INDEX tickets_by_project ON tickets (project_id, id);
CREATE INDEX tickets_by_status ON tickets (status, id);

CREATE TABLE tasks (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    ticket_id TEXT REFERENCES tickets (id),
    parent_task_id TEXT REFERENCES tasks (id),
    phase_id TEXT NOT NULL,
    task_type TEXT NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    priority TEXT NOT NULL,
    status TEXT NOT NULL,
    -- Counts the holders a task has had; only the newest may act for it.
    generation BIGINT NOT NULL,
    branch_name TEXT,
    dependency_policy TEXT NOT NULL,
    unmet_dependencies BIGINT NOT NULL,
    dependants_pending BIGINT NOT NULL,
    required_capabilities TEXT NOT NULL,
    owned_files TEXT NOT NULL,
    retry_count BIGINT NOT NULL,
    max_retries BIGINT NOT NULL,
    not_before BIGINT,
    timeout_seconds BIGINT,
    deadline_at BIGINT,
    execution_config TEXT NOT NULL,
    result TEXT,
    failure_kind TEXT,
    error_message TEXT,
    -- The order of claiming, kept so that the best of many is found by an index; see domain/score.rs.
    rank_class BIGINT NOT NULL,
    rank DOUBLE PRECISION NOT NULL,
    rank_next_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    started_at BIGINT,
    completed_at BIGINT
);
CREATE INDEX tasks_by_project ON tasks (project_id, id);
CREATE INDEX tasks_by_ticket ON tasks (ticket_id, id) WHERE ticket_id IS NOT NULL;
CREATE INDEX tasks_by_status ON tasks (status, id);
CREATE INDEX tasks_by_parent ON tasks (parent_task_id) WHERE parent_task_id IS NOT NULL;
CREATE INDEX tasks_by_branch ON tasks (project_id, branch_name) WHERE branch_name IS NOT NULL;
CREATE INDEX tasks_to_claim ON tasks (project_id, rank_class, rank DESC, id)
    WHERE status = 'pending' AND unmet_dependencies = 0 AND not_before IS NULL;
-- The status leads although the condition fixes it: without statistics SQLite would take tasks_by_status instead.
CREATE INDEX tasks_to_claim_by_deadline ON tasks (status, deadline_at)
    WHERE status = 'pending' AND unmet_dependencies = 0 AND not_before IS NULL AND deadline_at IS NOT NULL;
CREATE INDEX tasks_to_rank ON tasks (status, rank_next_at) WHERE status = 'pending' AND rank_next_at IS NOT NULL;
CREATE INDEX tasks_waiting ON tasks (status, not_before) WHERE status = 'pending' AND not_before IS NOT NULL;
CREATE INDEX tasks_with_timeout ON tasks (status, started_at)
    WHERE status = 'running' AND timeout_seconds IS NOT NULL;

CREATE TABLE dependencies (
    task_id TEXT NOT NULL REFERENCES tasks (id),
    depends_on TEXT NOT NULL REFERENCES tasks (id),
    PRIMARY KEY (task_id, depends_on)
);
CREATE INDEX dependencies_reversed ON dependencies (depends_on, task_id);

CREATE TABLE agents (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    agent_type TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    status TEXT NOT NULL,
    last_heartbeat_at BIGINT,
    heartbeat_sequence BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY,
    task_id TEXT REFERENCES tasks (id),
    project_id TEXT REFERENCES projects (id),
    agent_id TEXT REFERENCES agents (id),
    provider TEXT NOT NULL,
    status TEXT NOT NULL,
    live BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    lease_expires_at BIGINT,
    -- After this its token opens nothing; absent while it may report.
    reports_until BIGINT,
    branch_name TEXT,
    labels TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT,
    last_heartbeat_at BIGINT,
    end_reason TEXT
);
-- One owner: a task has at most one live sandbox.
CREATE UNIQUE INDEX sandboxes_one_live_per_task ON sandboxes (task_id) WHERE live = 1 AND task_id IS NOT NULL;
CREATE INDEX sandboxes_by_task ON sandboxes (task_id, generation);
CREATE INDEX sandboxes_by_age ON sandboxes (created_at, id);
CREATE INDEX sandboxes_by_status ON sandboxes (status, created_at, id);
CREATE INDEX sandboxes_by_project ON sandboxes (project_id, created_at, id);
CREATE INDEX sandboxes_by_agent ON sandboxes (agent_id, id) WHERE agent_id IS NOT NULL;
CREATE INDEX sandboxes_by_lease ON sandboxes (lease_expires_at) WHERE live = 1;

-- Everything that happened, in one order without gaps. A row with a seq is a sandbox's own event; one without
-- tells what became of an entity.
CREATE TABLE events (
    pos BIGINT PRIMARY KEY,
    entity_type TEXT NOT NULL,
    entity_id TEXT NOT NULL,
    seq BIGINT,
    worker_seq BIGINT,
    -- The worker's last number as of this event; with it, an event is found by worker_seq without an index.
    worker_last BIGINT NOT NULL,
    event_type TEXT NOT NULL,
    -- How many events of its type the sandbox has with this one, so that no page ever counts; 0 without a seq.
    type_count BIGINT NOT NULL,
    source TEXT NOT NULL,
    data TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    -- Why it changed nothing, when it meant to: the code of the refusal.
    refused TEXT
);
CREATE UNIQUE INDEX events_by_seq ON events (entity_id, seq) WHERE seq IS NOT NULL;
CREATE INDEX events_by_type ON events (entity_id, event_type, seq) WHERE seq IS NOT NULL;

CREATE TABLE messages (
    id TEXT PRIMARY KEY,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    seq BIGINT NOT NULL,
    message_type TEXT NOT NULL,
    content TEXT NOT NULL,
    sender TEXT NOT NULL,
    state TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    delivered_at BIGINT,
    injected_at BIGINT,
    acknowledged_at BIGINT,
    expired_at BIGINT,
    deliveries BIGINT NOT NULL,
    -- Not handed out again before this.
    offer_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX messages_by_seq ON messages (sandbox_id, seq);
CREATE INDEX messages_to_deliver ON messages (sandbox_id, seq) WHERE state IN ('queued', 'delivered');
CREATE INDEX messages_by_age ON messages (created_at) WHERE state IN ('queued', 'delivered');
CREATE INDEX messages_to_offer_again ON messages (offer_at) WHERE state = 'delivered';

-- Content by its SHA-256, compressed with zstd.
CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,
    size BIGINT NOT NULL,
    data BYTEA NOT NULL
);

-- The whole diff of a file change whose event carries a preview.
CREATE TABLE diffs (
    sandbox_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    file_path TEXT NOT NULL,
    blob_hash TEXT NOT NULL REFERENCES blobs (hash),
    PRIMARY KEY (sandbox_id, seq)
);

-- A session may go on in another sandbox under the same name.
CREATE TABLE transcripts (
    session_id TEXT NOT NULL,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    task_id TEXT,
    blob_hash TEXT NOT NULL REFERENCES blobs (hash),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (sandbox_id, session_id)
);
CREATE INDEX transcripts_by_sandbox ON transcripts (sandbox_id, created_at);

CREATE TABLE results (
    id TEXT PRIMARY KEY,
    task_id TEXT NOT NULL REFERENCES tasks (id),
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    result_type TEXT NOT NULL,
    summary TEXT NOT NULL,
    blob_hash TEXT NOT NULL REFERENCES blobs (hash),
    verification_status TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX results_by_task ON results (task_id, id);

-- Secrets are kept as SHA-256 only. A token is an operator's (role) or a sandbox's (sandbox_id).
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT,
    sandbox_id TEXT REFERENCES sandboxes (id),
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
);
CREATE UNIQUE INDEX tokens_by_hash ON tokens (hash);
CREATE INDEX tokens_of_operators ON tokens (id) WHERE role IS NOT NULL;

-- Each row carries the hash of the one before it.
CREATE TABLE audit (
    n BIGINT PRIMARY KEY,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    entity_type TEXT NOT NULL,
    entity_id TEXT NOT NULL,
    detail TEXT NOT NULL,
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX audit_by_entity ON audit (entity_id, n);
