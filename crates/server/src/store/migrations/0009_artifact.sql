-- Files that sandboxes hand in beside their branch.
CREATE TABLE artifacts (
    id TEXT PRIMARY KEY,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    task_id TEXT REFERENCES tasks (id),
    name TEXT NOT NULL,
    content_type TEXT NOT NULL,
    size BIGINT NOT NULL,
    blob_hash TEXT NOT NULL REFERENCES blobs (hash),
    created_at BIGINT NOT NULL
);
CREATE INDEX artifacts_by_sandbox ON artifacts (sandbox_id, id);
CREATE INDEX artifacts_by_task ON artifacts (task_id, id) WHERE task_id IS NOT NULL;

-- When an agent was given up on; one that registers again under its name is held to limits.
ALTER TABLE agents ADD COLUMN failed_at BIGINT;
CREATE INDEX agents_failed ON agents (name, failed_at) WHERE failed_at IS NOT NULL;
