-- Schema version 2: a fleet seen from the topics alone (sheaf mirror).

-- How far each topic was read into this store. Written with what was read, so that a mirror that starts again goes on
-- exactly there.
CREATE TABLE mirrored (
  topic       TEXT NOT NULL,
  partition   INTEGER NOT NULL,
  next_offset INTEGER NOT NULL,
  PRIMARY KEY (topic, partition)
) STRICT, WITHOUT ROWID;

-- The workers that results name, on whichever machine. jobs.made_by says who finished a job.
CREATE TABLE fleet (
  worker            TEXT PRIMARY KEY,
  first_finished_at INTEGER NOT NULL,
  last_finished_at  INTEGER NOT NULL,
  n_done            INTEGER NOT NULL,
  n_failed          INTEGER NOT NULL,
  n_cancelled       INTEGER NOT NULL,
  prompt_tokens     INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  cached_tokens     INTEGER NOT NULL,
  compute_us        INTEGER NOT NULL               -- sum of the jobs' own prefill and decode times: jobs overlap
) STRICT, WITHOUT ROWID;

ALTER TABLE jobs ADD COLUMN made_by TEXT;          -- fleet.worker; NULL: see worker

-- What a mirror knows of a partition's owner is the group member's name; it holds no row of workers.
DROP VIEW lag;
DROP TABLE partitions;
CREATE TABLE partitions (
  topic       TEXT NOT NULL,
  partition   INTEGER NOT NULL,
  worker      INTEGER REFERENCES workers (id),     -- its owner; NULL: seen by a mirror
  owner       TEXT,                                -- the group member's name and host, seen by a mirror; NULL: nobody
  position    INTEGER NOT NULL,                    -- next offset to be delivered; a mirror's: committed
  committed   INTEGER NOT NULL,                    -- every offset below is finished
  log_end     INTEGER NOT NULL,
  in_flight   INTEGER NOT NULL,                    -- a mirror's: 0, workers do not tell
  map_covered INTEGER NOT NULL,                    -- finished above `committed`
  updated_at  INTEGER NOT NULL,
  PRIMARY KEY (topic, partition)
) STRICT, WITHOUT ROWID;

CREATE VIEW lag AS
SELECT topic, partition, worker, owner, log_end - max(committed, 0) - map_covered AS jobs_behind, in_flight,
       map_covered, committed, log_end
FROM partitions;

CREATE VIEW fleet_throughput AS
SELECT worker, n_done, n_failed, n_cancelled,
       round((n_done + n_failed + n_cancelled) * 1e6 / max(last_finished_at - first_finished_at, 1000000), 2)
         AS jobs_per_second,
       round(completion_tokens * 1e6 / max(last_finished_at - first_finished_at, 1000000), 1) AS tokens_per_second,
       round(100.0 * cached_tokens / nullif(prompt_tokens, 0), 1) AS cached_percent,
       strftime('%Y-%m-%d %H:%M:%S', last_finished_at / 1000000, 'unixepoch') AS last_finished
FROM fleet ORDER BY worker;
