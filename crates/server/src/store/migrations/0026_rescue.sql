-- Tries to keep the work of an ended sandbox that failed, and why the last one did.
ALTER TABLE sandboxes ADD COLUMN rescue_tries BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN rescue_error TEXT;
-- Sandboxes whose work could not be kept, and those that a person has discarded since.
CREATE INDEX sandboxes_undecided ON sandboxes (place, id) WHERE place IN ('unkept', 'discarded');
