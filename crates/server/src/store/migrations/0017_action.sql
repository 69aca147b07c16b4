-- A paused project starts nothing new.
ALTER TABLE projects ADD COLUMN paused BIGINT NOT NULL DEFAULT 0;

-- What was done to work by authority, with what was before and after.
CREATE TABLE guardian_actions (
    id TEXT PRIMARY KEY,
    action_type TEXT NOT NULL,
    project_id TEXT NOT NULL REFERENCES projects (id),
    entity_type TEXT NOT NULL,
    entity_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    actor TEXT NOT NULL,
    -- JSON, both.
    before_it TEXT NOT NULL,
    after_it TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    reverted_at BIGINT,
    reverted_by TEXT
);
CREATE INDEX guardian_actions_by_project ON guardian_actions (project_id, id);

-- Why tickets cannot go on.
CREATE TABLE diagnostic_runs (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    ticket_id TEXT NOT NULL REFERENCES tickets (id),
    number BIGINT NOT NULL,
    state TEXT NOT NULL,
    total_tasks BIGINT NOT NULL,
    completed_tasks BIGINT NOT NULL,
    failed_tasks BIGINT NOT NULL,
    root_cause TEXT NOT NULL,
    -- JSON lists.
    hypotheses TEXT NOT NULL,
    proposals TEXT NOT NULL,
    -- The last change of a task that it knows of.
    seen_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    decided_at BIGINT,
    decided_by TEXT,
    UNIQUE (ticket_id, number)
);
CREATE INDEX diagnostic_runs_by_project ON diagnostic_runs (project_id, id);
CREATE INDEX diagnostic_runs_open ON diagnostic_runs (id) WHERE state = 'open';
CREATE INDEX tasks_failed ON tasks (updated_at) WHERE status = 'failed' AND ticket_id IS NOT NULL;
