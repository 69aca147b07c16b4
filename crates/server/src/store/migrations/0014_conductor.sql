-- Which lines of a file a sandbox was seen to change, as JSON, told in the lines of the file as it was at first; absent
-- where nobody knows.
ALTER TABLE footprints ADD COLUMN lines TEXT;
ALTER TABLE sandboxes ADD COLUMN beat_memory_bytes BIGINT;

CREATE INDEX tasks_by_end ON tasks (completed_at) WHERE completed_at IS NOT NULL;
-- Work that is done and waits to be checked.
CREATE INDEX tasks_to_check ON tasks (stage, id) WHERE stage = 'check' AND status = 'pending';
CREATE INDEX sandboxes_by_end ON sandboxes (ended_at) WHERE ended_at IS NOT NULL;

-- Two that get in each other's way. `other_id` is a sandbox, or empty: the project's default branch.
CREATE TABLE conflicts (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    other_id TEXT NOT NULL,
    -- JSON: who they are, as they were called when it was found.
    side TEXT NOT NULL,
    other_side TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- JSON: the files, with their lines.
    files TEXT NOT NULL,
    -- JSON: the sandboxes that were told.
    told TEXT NOT NULL,
    found_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    cleared_at BIGINT
);
CREATE UNIQUE INDEX conflicts_open ON conflicts (sandbox_id, other_id) WHERE cleared_at IS NULL;
CREATE INDEX conflicts_of_pair ON conflicts (sandbox_id, other_id, id);
CREATE INDEX conflicts_by_project ON conflicts (project_id, id);

-- Everybody against everybody, as the radar last saw it: JSON.
CREATE TABLE radar (
    project_id TEXT PRIMARY KEY REFERENCES projects (id),
    at BIGINT NOT NULL,
    matrix TEXT NOT NULL
);

-- Two tasks that seem to be the same work, the smaller id first.
CREATE TABLE detected_duplicates (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    task_id TEXT NOT NULL REFERENCES tasks (id),
    other_id TEXT NOT NULL REFERENCES tasks (id),
    side TEXT NOT NULL,
    other_side TEXT NOT NULL,
    similarity DOUBLE PRECISION NOT NULL,
    files TEXT NOT NULL,
    found_at BIGINT NOT NULL,
    dismissed_at BIGINT,
    dismissed_by TEXT
);
CREATE UNIQUE INDEX detected_duplicates_by_pair ON detected_duplicates (task_id, other_id);
CREATE INDEX detected_duplicates_by_project ON detected_duplicates (project_id, id);

-- One look over all that is under way, of one project or of all.
CREATE TABLE conductor_analyses (
    id TEXT PRIMARY KEY,
    project_id TEXT,
    at BIGINT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX conductor_analyses_by_project ON conductor_analyses (project_id, id);
CREATE INDEX conductor_analyses_by_age ON conductor_analyses (at);

-- Figures over time: so many seconds from `at` on.
CREATE TABLE monitor_samples (
    step_seconds BIGINT NOT NULL,
    at BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (step_seconds, at)
);

-- What is usual for a kind of agent in a phase.
CREATE TABLE monitor_baselines (
    agent_kind TEXT NOT NULL,
    phase TEXT NOT NULL,
    body TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (agent_kind, phase)
);
-- Up to which moment attempts were learned from, and running sums.
CREATE TABLE monitor_marks (
    name TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);

CREATE TABLE monitor_anomalies (
    id TEXT PRIMARY KEY,
    metric TEXT NOT NULL,
    sandbox_id TEXT,
    body TEXT NOT NULL,
    severity TEXT NOT NULL,
    detected_at BIGINT NOT NULL,
    acknowledged_at BIGINT,
    acknowledged_by TEXT
);
CREATE INDEX monitor_anomalies_open ON monitor_anomalies (id) WHERE acknowledged_at IS NULL;
CREATE INDEX monitor_anomalies_by_age ON monitor_anomalies (detected_at);
