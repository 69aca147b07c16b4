-- A browser that is signed in: the SHA-256 of what its cookie holds, and the token it stands for.
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY,
    token_id TEXT NOT NULL REFERENCES tokens (id),
    created_at BIGINT NOT NULL,
    -- Moves on while it is used.
    idle_until BIGINT NOT NULL,
    -- Does not.
    ends_at BIGINT NOT NULL
);
CREATE INDEX sessions_of_token ON sessions (token_id, idle_until);
CREATE INDEX sessions_by_idle ON sessions (idle_until);
