-- What workers say that they spent themselves. It is kept apart from what the gateway counted. Money is in nano-USD.

-- The highest total that was reported of each conversation of a sandbox; '' is the run as a whole.
CREATE TABLE reported_sessions (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    session TEXT NOT NULL,
    total BIGINT NOT NULL,
    PRIMARY KEY (sandbox_id, session)
);

-- By how much a sandbox's reported cost has grown, and with which event.
CREATE TABLE reported_costs (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    seq BIGINT NOT NULL,
    task_id TEXT,
    project_id TEXT,
    cost BIGINT NOT NULL,
    -- The part of it that budgets count; nothing once the gateway has a figure for the sandbox.
    counted BIGINT NOT NULL,
    reported_at BIGINT NOT NULL,
    PRIMARY KEY (sandbox_id, seq)
);
CREATE INDEX reported_costs_by_age ON reported_costs (reported_at);
CREATE INDEX reported_costs_by_task ON reported_costs (task_id, reported_at);
CREATE INDEX reported_costs_by_project ON reported_costs (project_id, reported_at);
CREATE INDEX reported_costs_counted ON reported_costs (sandbox_id) WHERE counted > 0;

ALTER TABLE spend ADD COLUMN reported BIGINT NOT NULL DEFAULT 0;
ALTER TABLE spend ADD COLUMN reported_counted BIGINT NOT NULL DEFAULT 0;
-- How many reported amounts were not an amount in USD.
ALTER TABLE spend ADD COLUMN reported_ignored BIGINT NOT NULL DEFAULT 0;
