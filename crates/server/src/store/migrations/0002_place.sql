-- Where a sandbox is that the server itself makes and removes. `none`: somebody else runs it.
ALTER TABLE sandboxes ADD COLUMN place TEXT NOT NULL DEFAULT 'none';
-- The machine that it is on, and which range of user ids it has there.
ALTER TABLE sandboxes ADD COLUMN node TEXT;
ALTER TABLE sandboxes ADD COLUMN slot BIGINT;
-- What was asked for, as JSON.
ALTER TABLE sandboxes ADD COLUMN wish TEXT;
ALTER TABLE sandboxes ADD COLUMN base_commit TEXT;
-- How it is isolated and what was kept of it, as JSON.
ALTER TABLE sandboxes ADD COLUMN isolation TEXT;
ALTER TABLE sandboxes ADD COLUMN kept TEXT;
-- A step that failed is tried again at this time.
ALTER TABLE sandboxes ADD COLUMN place_tries BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN place_due_at BIGINT;
ALTER TABLE sandboxes ADD COLUMN place_error TEXT;
CREATE INDEX sandboxes_by_place ON sandboxes (place, id) WHERE place IN ('wanted', 'up', 'kept');
CREATE UNIQUE INDEX sandboxes_by_slot ON sandboxes (node, slot)
    WHERE slot IS NOT NULL AND place IN ('wanted', 'up', 'kept');

-- Commands that people run in a sandbox. Their output is in its events.
CREATE TABLE commands (
    id TEXT PRIMARY KEY,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    argv TEXT NOT NULL,
    state TEXT NOT NULL,
    exit_code BIGINT,
    error TEXT,
    requested_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE INDEX commands_by_sandbox ON commands (sandbox_id, id);
CREATE INDEX commands_to_run ON commands (state, id) WHERE state IN ('pending', 'running');

CREATE INDEX tokens_by_sandbox ON tokens (sandbox_id) WHERE sandbox_id IS NOT NULL;
