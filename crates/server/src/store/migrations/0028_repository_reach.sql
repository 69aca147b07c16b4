-- Where a project's repository_url may lead: 'any' if an administrator set it, else 'public'. Addresses that were set
-- before there was a rule stay valid.
ALTER TABLE projects ADD COLUMN repository_reach TEXT NOT NULL DEFAULT 'any';
