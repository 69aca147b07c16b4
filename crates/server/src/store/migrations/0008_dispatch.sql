-- Whether tasks of a project are given sandboxes without anybody asking; absent: as configured.
ALTER TABLE projects ADD COLUMN autonomous BIGINT;
-- Whether dispatch may take a task: 0 never, 1 where its project is autonomous, 2 in any project.
ALTER TABLE tasks ADD COLUMN lane BIGINT NOT NULL DEFAULT 1;
UPDATE tasks SET lane = 0 WHERE required_capabilities <> '[]';
CREATE INDEX tasks_to_dispatch ON tasks (project_id, lane, rank_class, rank DESC, id)
    WHERE status = 'pending' AND unmet_dependencies = 0 AND not_before IS NULL;

-- How an attempt failed, so that the next one knows whether to go on with its conversation.
ALTER TABLE sandboxes ADD COLUMN failure_kind TEXT;
ALTER TABLE sandboxes ADD COLUMN failure TEXT;

-- What the newest heartbeat said, and when its figures last grew.
ALTER TABLE sandboxes ADD COLUMN beat_status TEXT;
ALTER TABLE sandboxes ADD COLUMN beat_cpu_ms BIGINT;
ALTER TABLE sandboxes ADD COLUMN beat_io_bytes BIGINT;
ALTER TABLE sandboxes ADD COLUMN last_active_at BIGINT;

CREATE INDEX egress_by_age ON egress (last_at);
