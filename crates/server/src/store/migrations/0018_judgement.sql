-- What a model was asked about the course of a sandbox, and what it thinks.
CREATE TABLE judgements (
    id TEXT PRIMARY KEY,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    task_id TEXT,
    project_id TEXT,
    state TEXT NOT NULL,
    cause TEXT NOT NULL,
    -- JSON list of kinds of findings.
    doubts TEXT NOT NULL,
    asked_by TEXT NOT NULL,
    asked_at BIGINT NOT NULL,
    -- Of one that is asked: somebody is at it, until then at most.
    taken_until BIGINT,
    -- The last event that the model was told of.
    seq BIGINT,
    model TEXT,
    call_id TEXT,
    answered_at BIGINT,
    failure TEXT,
    error TEXT,
    -- JSON, of one that is done.
    judgement TEXT
);
CREATE INDEX judgements_by_sandbox ON judgements (sandbox_id, id);
-- One question about a sandbox at a time.
CREATE UNIQUE INDEX judgements_open ON judgements (sandbox_id) WHERE state = 'asked';
CREATE INDEX judgements_waiting ON judgements (asked_at, id) WHERE state = 'asked';
CREATE INDEX judgements_by_age ON judgements (answered_at) WHERE answered_at IS NOT NULL;

-- From 0 to 1: what the last judgement says.
ALTER TABLE sandboxes ADD COLUMN judged DOUBLE PRECISION;
CREATE INDEX sandboxes_judged ON sandboxes (id) WHERE live = 1 AND judged IS NOT NULL;

-- Whom a call is for.
ALTER TABLE model_calls ADD COLUMN purpose TEXT NOT NULL DEFAULT 'work';
CREATE INDEX model_calls_of_judge ON model_calls (started_at) WHERE purpose = 'judge';
-- Of what was spent, what the judge spent: no part of the budgets of attempt and task.
ALTER TABLE spend ADD COLUMN judged BIGINT NOT NULL DEFAULT 0;
