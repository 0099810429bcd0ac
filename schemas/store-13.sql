-- Version 13: where an answer is removed, one of its duplicates takes its place. Found by an index, not by reading all jobs.
CREATE INDEX jobs_copies ON jobs (request_hash) WHERE request_hash IS NOT NULL AND is_duplicate = 1;
CREATE INDEX jobs_open_copies ON jobs (open_hash) WHERE open_hash IS NOT NULL AND is_duplicate = 1;
