-- 1 for the first of its type in a run of events. Those alone are in the index of types: see typed.rs.
ALTER TABLE events ADD COLUMN opens_run BIGINT NOT NULL DEFAULT 0;
UPDATE events SET opens_run = 1 WHERE seq IS NOT NULL AND NOT EXISTS (SELECT 1 FROM events p
    WHERE p.entity_id = events.entity_id AND p.seq IS NOT NULL AND p.seq >= events.seq / 16 * 16
    AND p.seq < events.seq AND p.event_type = events.event_type);
DROP INDEX events_by_type;
CREATE INDEX events_by_type ON events (entity_id, event_type, seq) WHERE opens_run = 1;
