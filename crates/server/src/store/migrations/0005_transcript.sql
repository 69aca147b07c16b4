-- A transcript comes whole with its agent's last word, or grows part by part.
ALTER TABLE transcripts RENAME TO transcripts_whole;
DROP INDEX transcripts_by_sandbox;
CREATE TABLE transcripts (
    session_id TEXT NOT NULL,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    task_id TEXT,
    -- What came whole, in base64; absent when the parts are newer.
    blob_hash TEXT REFERENCES blobs (hash),
    -- Bytes in its parts.
    size BIGINT NOT NULL,
    -- When it last changed.
    created_at BIGINT NOT NULL,
    PRIMARY KEY (sandbox_id, session_id)
);
INSERT INTO transcripts (session_id, sandbox_id, task_id, blob_hash, size, created_at)
    SELECT session_id, sandbox_id, task_id, blob_hash, 0, created_at FROM transcripts_whole;
DROP TABLE transcripts_whole;
CREATE INDEX transcripts_by_sandbox ON transcripts (sandbox_id, created_at);
CREATE INDEX transcripts_by_session ON transcripts (session_id, created_at);

-- Bytes of a session's log, compressed with zstd.
CREATE TABLE transcript_parts (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    session_id TEXT NOT NULL,
    start_at BIGINT NOT NULL,
    size BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (sandbox_id, session_id, start_at)
);
