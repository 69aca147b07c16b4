-- What failed lately is found by its time; an index is taken for that only where the status leads it.
DROP INDEX tasks_failed;
CREATE INDEX tasks_failed ON tasks (status, updated_at) WHERE status = 'failed' AND ticket_id IS NOT NULL;
CREATE INDEX audit_by_entity_type ON audit (entity_type, n);
