-- Figures of heartbeats from before they had bounds (watch.rs): what is reckoned with them would not fit into 64 bits.
UPDATE sandboxes SET beat_cpu_ms = NULL WHERE live = 1 AND (beat_cpu_ms < 0 OR beat_cpu_ms > 10000000000000);
UPDATE sandboxes SET beat_io_bytes = NULL WHERE live = 1 AND (beat_io_bytes < 0 OR beat_io_bytes > 1125899906842624);
-- A program from before there were runs would leave the index of types without its events, unnoticed. SQLite refuses it anyway,
-- by the number of columns.
-- PostgreSQL: ALTER TABLE events ALTER COLUMN opens_run DROP DEFAULT;
