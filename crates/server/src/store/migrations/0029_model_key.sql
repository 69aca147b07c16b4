-- Pending tasks that dispatch has passed over, because their model has no key: their lane is that much higher.
CREATE INDEX tasks_without_key ON tasks (project_id, lane) WHERE lane >= 10;
