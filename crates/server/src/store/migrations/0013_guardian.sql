-- The Guardian: how far it has looked, and who looks.
CREATE TABLE guardian (
    id BIGINT PRIMARY KEY,
    -- Everything up to here was judged, and what was found is stored.
    position BIGINT NOT NULL,
    -- The time of what stands there.
    taken_at BIGINT NOT NULL,
    events BIGINT NOT NULL,
    holder TEXT,
    held_until BIGINT,
    ticked_at BIGINT,
    tick_us BIGINT,
    watched BIGINT NOT NULL,
    bytes BIGINT NOT NULL
);
-- What happened before there was a Guardian is not judged.
INSERT INTO guardian (id, position, taken_at, events, watched, bytes)
    SELECT 1, COALESCE(max(pos), 0), 0, 0, 0, 0 FROM events;

CREATE TABLE findings (
    id TEXT PRIMARY KEY,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    task_id TEXT,
    project_id TEXT,
    kind TEXT NOT NULL,
    severity TEXT NOT NULL,
    -- What it takes off the sandbox's alignment while it is open, in hundredths.
    weight BIGINT NOT NULL,
    number BIGINT NOT NULL,
    -- Which occurrence it is; the same one is not found twice.
    occurrence BIGINT NOT NULL,
    seqs TEXT NOT NULL,
    seq BIGINT NOT NULL,
    text TEXT NOT NULL,
    since BIGINT NOT NULL,
    found_at BIGINT NOT NULL,
    cleared_at BIGINT,
    cleared_by TEXT
);
CREATE UNIQUE INDEX findings_once ON findings (sandbox_id, kind, number);
CREATE INDEX findings_by_sandbox ON findings (sandbox_id, id);
CREATE INDEX findings_by_task ON findings (task_id, id) WHERE task_id IS NOT NULL;
CREATE INDEX findings_by_project ON findings (project_id, id) WHERE project_id IS NOT NULL;
CREATE INDEX findings_open ON findings (sandbox_id, kind) WHERE cleared_at IS NULL;

CREATE TABLE interventions (
    id TEXT PRIMARY KEY,
    -- Absent where a person nudged.
    finding_id TEXT,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    task_id TEXT,
    project_id TEXT,
    kind TEXT,
    action TEXT NOT NULL,
    mode TEXT NOT NULL,
    text TEXT NOT NULL,
    held TEXT,
    -- Of one that is `sent`, its message tells how far it has come.
    state TEXT NOT NULL,
    message_id TEXT,
    error TEXT,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    decided_by TEXT,
    decided_at BIGINT,
    decided_because TEXT,
    effect TEXT,
    effect_by TEXT,
    effect_at BIGINT,
    alignment_before DOUBLE PRECISION,
    alignment_after DOUBLE PRECISION
);
CREATE INDEX interventions_by_sandbox ON interventions (sandbox_id, id);
CREATE INDEX interventions_by_task ON interventions (task_id, id) WHERE task_id IS NOT NULL;
CREATE INDEX interventions_by_project ON interventions (project_id, id) WHERE project_id IS NOT NULL;
CREATE INDEX interventions_waiting ON interventions (state, id) WHERE state = 'suggested';
CREATE INDEX interventions_by_age ON interventions (created_at) WHERE mode <> 'record';
CREATE UNIQUE INDEX interventions_by_message ON interventions (message_id) WHERE message_id IS NOT NULL;

-- Each change of a project's policy; the last one holds, and one without a text leaves it to the default.
CREATE TABLE policies (
    project_id TEXT NOT NULL REFERENCES projects (id),
    version BIGINT NOT NULL,
    text TEXT,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, version)
);
