-- Specs: the branch that holds all of one, and work that may exist already.

-- Whether its tasks are held against those that exist.
ALTER TABLE specs ADD COLUMN find_duplicates BIGINT NOT NULL DEFAULT 1;

CREATE TABLE spec_branches (
    spec_id TEXT PRIMARY KEY REFERENCES specs (id),
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    base_commit TEXT,
    commit_id TEXT,
    -- JSON: what became of each task, in the order of merging.
    merges TEXT NOT NULL,
    error TEXT,
    tries BIGINT NOT NULL DEFAULT 0,
    -- All of its tasks were completed when it was last wanted.
    whole BIGINT NOT NULL DEFAULT 0,
    -- The task that runs the declared checks on it.
    check_task_id TEXT REFERENCES tasks (id),
    updated_at BIGINT NOT NULL
);
CREATE INDEX spec_branches_wanted ON spec_branches (spec_id) WHERE state = 'wanted';

-- A task that was made for a symbol, and one that existed and is like it.
CREATE TABLE spec_duplicates (
    spec_id TEXT NOT NULL REFERENCES specs (id),
    symbol TEXT NOT NULL,
    existing_task_id TEXT NOT NULL REFERENCES tasks (id),
    task_id TEXT NOT NULL REFERENCES tasks (id),
    similarity DOUBLE PRECISION NOT NULL,
    -- NULL until somebody decides.
    decision TEXT,
    decided_by TEXT,
    decided_at BIGINT,
    PRIMARY KEY (spec_id, symbol, existing_task_id)
);
