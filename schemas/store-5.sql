-- Schema version 5.

-- One row's job and message: with a single min() SQLite takes the other columns from the row that holds the minimum
-- (https://sqlite.org/lang_select.html#bareagg).
DROP VIEW failures;
CREATE VIEW failures AS
SELECT dataset, error_code, sum(n) AS jobs, min(example) AS example, message
FROM (SELECT dataset, error_code, count(*) AS n, min(custom_id) AS example, error AS message
      FROM jobs WHERE error_code IS NOT NULL GROUP BY dataset, error_code
      UNION ALL SELECT dataset, error_code, jobs, example, message FROM folded_failures)
GROUP BY dataset, error_code ORDER BY jobs DESC;

-- The jobs' records are kept beside the queue until the jobs are folded or deleted, so that finished jobs can be queued again; and the
-- queue's rows, which each claim writes, are small.
CREATE TABLE records (
  job      INTEGER PRIMARY KEY REFERENCES jobs (id),
  record   BLOB NOT NULL,                          -- the job's record as submitted
  encoding INTEGER NOT NULL                        -- 0 JSON, 1 msgpack
) STRICT;
INSERT INTO records SELECT job, record, encoding FROM queue;
ALTER TABLE queue DROP COLUMN record;
ALTER TABLE queue DROP COLUMN encoding;

-- Everything that a dataset's answers depend on besides the jobs, as "name=value" parts separated by spaces: the model's fingerprint,
-- the backend's arithmetic, the options that change answers. NULL: no job was computed, or by a worker that did not say.
ALTER TABLE datasets ADD COLUMN arithmetic TEXT;
ALTER TABLE datasets ADD COLUMN model TEXT;        -- its name, for people
ALTER TABLE workers ADD COLUMN arithmetic TEXT;
ALTER TABLE workers ADD COLUMN dataset TEXT;       -- embedded queue: the only one it takes jobs of; NULL: any
CREATE INDEX datasets_unfinished ON datasets (dataset) WHERE n_submitted > n_done + n_failed + n_cancelled;
CREATE INDEX workers_running ON workers (id) WHERE stopped_at IS NULL;

-- A file may grow: `fingerprint` is the hash of the lines that were submitted. NULL: of a whole file's bytes, by version 4.
ALTER TABLE datasets ADD COLUMN n_lines INTEGER;

-- Kafka: records that retention deleted before the group had read them, as far as the partition's owner saw.
ALTER TABLE partitions ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;

-- The highest id of a job that was deleted: a worker may compute that job still, so no later one gets its id.
CREATE TABLE deleted_jobs (
  id   INTEGER PRIMARY KEY CHECK (id = 1),
  last INTEGER NOT NULL
) STRICT;

-- The inode of the lock file that the worker's byte is locked in. An unlocked byte of another file proves no death.
ALTER TABLE workers ADD COLUMN lock_inode INTEGER;
