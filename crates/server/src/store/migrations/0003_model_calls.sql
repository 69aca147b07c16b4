-- Model calls and what they cost. Money is in nano-USD.

CREATE TABLE model_calls (
    id TEXT PRIMARY KEY,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    task_id TEXT,
    project_id TEXT,
    vendor TEXT NOT NULL,
    model TEXT NOT NULL,
    state TEXT NOT NULL,
    status_code BIGINT,
    stop_reason TEXT,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cache_read_tokens BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    -- What an open call may come to; nothing once it has ended.
    reserved BIGINT NOT NULL,
    estimated BIGINT NOT NULL,
    request_bytes BIGINT NOT NULL,
    first_byte_ms BIGINT,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    -- Of an open call: when it counts as lost, unless the process that makes it says otherwise before.
    alive_until BIGINT
);
CREATE INDEX model_calls_by_age ON model_calls (started_at, id);
CREATE INDEX model_calls_by_sandbox ON model_calls (sandbox_id, started_at, id);
CREATE INDEX model_calls_by_task ON model_calls (task_id, started_at, id);
CREATE INDEX model_calls_by_project ON model_calls (project_id, started_at, id);
CREATE INDEX model_calls_open ON model_calls (alive_until) WHERE alive_until IS NOT NULL;

-- Sums of each attempt, task and project, and of all, so that no question about money adds up rows.
CREATE TABLE spend (
    level TEXT NOT NULL,
    entity_id TEXT NOT NULL,
    spent BIGINT NOT NULL,
    reserved BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cache_read_tokens BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    PRIMARY KEY (level, entity_id)
);

-- Which limits a sandbox was told that it has reached, so that it is told once.
CREATE TABLE budget_stops (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    level TEXT NOT NULL,
    budget BIGINT NOT NULL,
    PRIMARY KEY (sandbox_id, level)
);

-- Why a task cannot go on until somebody decides.
ALTER TABLE tasks ADD COLUMN waiting_reason TEXT;
CREATE INDEX tasks_waiting_for_somebody ON tasks (project_id, id) WHERE waiting_reason IS NOT NULL;
