-- What proves a task: the checks that were declared when its work was done, and the commit that they run on.
ALTER TABLE tasks ADD COLUMN stage TEXT NOT NULL DEFAULT 'work';
ALTER TABLE tasks ADD COLUMN commit_id TEXT;
ALTER TABLE tasks ADD COLUMN checks TEXT;
-- What was last wrong with it, for the next attempt.
ALTER TABLE tasks ADD COLUMN feedback TEXT;
-- In the place of the project's.
ALTER TABLE tickets ADD COLUMN checks TEXT;
ALTER TABLE sandboxes ADD COLUMN stage TEXT NOT NULL DEFAULT 'work';
