-- How long a sandbox that was attached holds its task after it was last heard of; NULL: as configured (lease.duration).
ALTER TABLE sandboxes ADD COLUMN lease_seconds BIGINT;
