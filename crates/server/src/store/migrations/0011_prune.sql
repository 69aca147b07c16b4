-- What an ended sandbox still takes of the disk, and why it is to go now; absent: it stays for a while.
ALTER TABLE sandboxes ADD COLUMN disk_bytes BIGINT;
ALTER TABLE sandboxes ADD COLUMN removal TEXT;
