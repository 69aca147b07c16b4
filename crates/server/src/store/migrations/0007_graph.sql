-- Batches that named themselves, so that a repeat answers the same tasks.
CREATE TABLE task_batches (
    project_id TEXT NOT NULL REFERENCES projects (id),
    batch_key TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    -- JSON: the id of each task by its key.
    task_ids TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, batch_key)
);

-- The files that a sandbox was seen to change for its task.
CREATE TABLE footprints (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    path TEXT NOT NULL,
    task_id TEXT NOT NULL REFERENCES tasks (id),
    PRIMARY KEY (sandbox_id, path)
);
CREATE INDEX footprints_by_task ON footprints (task_id, path);

-- Pairs of tasks that were told to overlap, the smaller id first.
CREATE TABLE footprint_overlaps (
    task_id TEXT NOT NULL REFERENCES tasks (id),
    other_id TEXT NOT NULL REFERENCES tasks (id),
    told_at BIGINT NOT NULL,
    PRIMARY KEY (task_id, other_id)
);
