-- Not the monitor alone remembers something from one look to the next.
ALTER TABLE monitor_marks RENAME TO marks;
