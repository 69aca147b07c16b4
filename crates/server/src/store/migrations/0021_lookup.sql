-- What is asked for is found by an index, in the place of walking through all that ever was.

-- An agent elsewhere takes work alone, so checks do not stand before it; what it cannot do is passed over in the index.
DROP INDEX tasks_to_claim;
CREATE INDEX tasks_to_claim ON tasks (project_id, rank_class, rank DESC, id, required_capabilities)
    WHERE status = 'pending' AND unmet_dependencies = 0 AND not_before IS NULL AND stage = 'work';
