-- What the events of the sandbox weigh together with this one: see weight.rs. What was stored before weighs nothing.
ALTER TABLE events ADD COLUMN total_bytes BIGINT NOT NULL DEFAULT 0;
