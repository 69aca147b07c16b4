-- Specs: from an idea, phase by phase, to tasks.
CREATE TABLE specs (
    id TEXT PRIMARY KEY,
    -- Absent until somebody says where it is to be built.
    project_id TEXT REFERENCES projects (id),
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    flow TEXT NOT NULL,
    status TEXT NOT NULL,
    current_phase TEXT NOT NULL,
    -- Grows with every change; who changes something says which one was seen.
    version BIGINT NOT NULL,
    -- JSON: the phases that wait for a person; NULL leaves it to the project.
    gates TEXT,
    archived BIGINT NOT NULL DEFAULT 0,
    last_error TEXT,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX specs_by_project ON specs (project_id, id);
CREATE INDEX specs_executing ON specs (id) WHERE status = 'executing';

-- Every attempt at a phase; the last one of a phase is what counts.
CREATE TABLE spec_phases (
    spec_id TEXT NOT NULL REFERENCES specs (id),
    phase TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    -- Counts attempts from one since somebody last asked for the phase.
    try BIGINT NOT NULL,
    state TEXT NOT NULL,
    -- Absent where a person wrote the output.
    task_id TEXT REFERENCES tasks (id),
    edited_by TEXT,
    output_hash TEXT REFERENCES blobs (hash),
    -- The commit whose files the output was held against.
    commit_id TEXT,
    score DOUBLE PRECISION,
    -- JSON: what was found.
    findings TEXT NOT NULL,
    -- What this attempt was told of those before it.
    feedback TEXT,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    PRIMARY KEY (spec_id, phase, attempt)
);
CREATE UNIQUE INDEX spec_phases_of_task ON spec_phases (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX spec_phases_running ON spec_phases (spec_id) WHERE state = 'running';

-- What people said of a phase, and decided.
CREATE TABLE spec_comments (
    spec_id TEXT NOT NULL REFERENCES specs (id),
    n BIGINT NOT NULL,
    phase TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    decision TEXT NOT NULL,
    actor TEXT NOT NULL,
    comment TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (spec_id, n)
);

CREATE TABLE spec_versions (
    spec_id TEXT NOT NULL REFERENCES specs (id),
    version BIGINT NOT NULL,
    cause TEXT NOT NULL,
    actor TEXT NOT NULL,
    -- JSON: what it was made of.
    snapshot TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (spec_id, version)
);

-- What its symbolic ids have become.
CREATE TABLE spec_items (
    spec_id TEXT NOT NULL REFERENCES specs (id),
    symbol TEXT NOT NULL,
    ticket_id TEXT REFERENCES tickets (id),
    task_id TEXT REFERENCES tasks (id),
    PRIMARY KEY (spec_id, symbol)
);
CREATE INDEX spec_items_of_task ON spec_items (task_id) WHERE task_id IS NOT NULL;

CREATE INDEX events_of_spec ON events (entity_id, pos) WHERE entity_type = 'spec';
