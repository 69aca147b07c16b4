-- What is asked for is found by an index, in the place of walking through all that ever was.

-- An agent elsewhere takes work alone, so checks do not stand before it; what it cannot do is passed over in the index.
DROP INDEX tasks_to_claim;
CREATE INDEX tasks_to_claim ON tasks (project_id, rank_class, rank DESC, id, required_capabilities)
    WHERE status = 'pending' AND unmet_dependencies = 0 AND not_before IS NULL AND stage = 'work';
-- What becomes of a ticket depends on whether it has tasks of a status.
DROP INDEX tasks_by_ticket;
CREATE INDEX tasks_by_ticket ON tasks (ticket_id, status, id) WHERE ticket_id IS NOT NULL;
CREATE INDEX tasks_by_phase ON tasks (phase_id, id) WHERE phase_id <> 'PHASE_IMPLEMENTATION';
-- Of a project. Those that are not over are found by their status alone, so that a claim has nothing to change here.
CREATE INDEX tasks_over ON tasks (project_id, status, id)
    WHERE status = 'completed' OR status = 'failed' OR status = 'cancelled';
CREATE INDEX tickets_by_project_and_status ON tickets (project_id, status, id);

DROP INDEX specs_executing;
CREATE INDEX specs_by_status ON specs (status, id);
CREATE INDEX specs_archived ON specs (id) WHERE archived = 1;

CREATE INDEX findings_by_kind ON findings (kind, id);
CREATE INDEX findings_standing ON findings (id) WHERE cleared_at IS NULL;
DROP INDEX diagnostic_runs_open;
CREATE INDEX diagnostic_runs_by_state ON diagnostic_runs (state, id);
CREATE INDEX conflicts_standing ON conflicts (id) WHERE cleared_at IS NULL;
CREATE INDEX conflicts_standing_by_project ON conflicts (project_id, id) WHERE cleared_at IS NULL;
CREATE INDEX detected_duplicates_standing ON detected_duplicates (id) WHERE dismissed_at IS NULL;

CREATE INDEX interventions_by_mode ON interventions (mode, id);
CREATE INDEX interventions_done ON interventions (id) WHERE mode <> 'record';

CREATE INDEX sessions_by_end ON sessions (ends_at);
CREATE INDEX audit_by_actor ON audit (actor, n);
CREATE INDEX audit_by_action ON audit (action, n);
CREATE INDEX monitor_samples_by_age ON monitor_samples (at);
