-- What sandboxes reached for outside. A line stands for one request, or for several alike.
CREATE TABLE egress (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    id TEXT NOT NULL,
    at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    method TEXT NOT NULL,
    host TEXT NOT NULL,
    port BIGINT NOT NULL,
    address TEXT,
    decision TEXT NOT NULL,
    code TEXT,
    reason TEXT,
    tls TEXT,
    bytes_up BIGINT NOT NULL,
    bytes_down BIGINT NOT NULL,
    -- Absent while it goes on.
    duration_ms BIGINT,
    PRIMARY KEY (sandbox_id, id)
);
