-- Those that are expected to be heard of are found among all that ever were.
CREATE INDEX agents_by_status ON agents (status);
