-- Schema version 12: answers under a larger max_tokens.

-- A job's request without max_tokens, where an answer that ended by a stop rule is the answer under each larger max_tokens too; NULL: of
-- others, and of jobs that ended otherwise.
ALTER TABLE jobs ADD COLUMN open_hash BLOB;
ALTER TABLE jobs ADD COLUMN max_tokens INTEGER; -- as the request has it; NULL: it names none
CREATE INDEX jobs_open ON jobs (open_hash) WHERE open_hash IS NOT NULL AND is_duplicate = 0;
