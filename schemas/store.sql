-- The store: one SQLite file in WAL mode. Readable by the sqlite3 shell while workers run.
--
-- Two things live here. The projection (jobs, datasets, steps, prefixes, partitions, workers) says what happened; it is
-- written after a commit and may be lost and rebuilt. The embedded queue (queue, results, claims) is the source of
-- truth when no Kafka is used: submitting, claiming and finishing are SQLite transactions.
--
-- Times are microseconds since 1970 UTC. This file is schema version 1; store-2.sql and so on change it to the later
-- ones. store-6.sql renames columns and tables; the last definition of a view is today's: `.schema` in the sqlite3 shell prints the result.

CREATE TABLE datasets (
  dataset           TEXT PRIMARY KEY,
  submitted_at      INTEGER,                       -- first job; NULL: seen on Kafka only
  cancelled_at      INTEGER,                       -- NULL: not cancelled
  fingerprint       INTEGER,                       -- hash of the submitted file, to resume the same one only
  complete          INTEGER NOT NULL DEFAULT 0,    -- 1: every line of the file was submitted
  n_submitted       INTEGER NOT NULL DEFAULT 0,
  n_done            INTEGER NOT NULL DEFAULT 0,
  n_failed          INTEGER NOT NULL DEFAULT 0,
  n_cancelled       INTEGER NOT NULL DEFAULT 0,
  prompt_tokens     INTEGER NOT NULL DEFAULT 0,    -- of finished jobs
  completion_tokens INTEGER NOT NULL DEFAULT 0,
  cached_tokens     INTEGER NOT NULL DEFAULT 0,    -- prompt tokens served from shared pages
  first_finished_at INTEGER,
  last_finished_at  INTEGER
) STRICT;

CREATE TABLE jobs (
  id                INTEGER PRIMARY KEY,           -- order of submission
  dataset           TEXT NOT NULL,
  job_id            TEXT NOT NULL,
  custom_id         TEXT NOT NULL,
  position          INTEGER,                       -- line of the submitted file, from 1 (before version 5: non-blank lines, from 0)
  status            TEXT NOT NULL CHECK (status IN ('queued', 'running', 'done', 'failed', 'cancelled')),
  error_code        TEXT,
  error             TEXT,
  finish_reason     TEXT,                          -- of the first choice
  prompt_tokens     INTEGER,
  completion_tokens INTEGER,
  cached_tokens     INTEGER,
  queued_us         INTEGER,                       -- wait in the window
  prefill_us        INTEGER,                       -- admission to first token
  decode_us         INTEGER,                       -- first token to last
  attempts          INTEGER NOT NULL DEFAULT 0,
  worker            INTEGER,                       -- workers.id
  submitted_at      INTEGER,
  finished_at       INTEGER,
  topic             TEXT,                          -- where the record came from; NULL: the embedded queue
  partition         INTEGER,
  offset            INTEGER,
  UNIQUE (dataset, job_id)
) STRICT;

CREATE INDEX jobs_failed ON jobs (dataset, error_code) WHERE error_code IS NOT NULL;
CREATE INDEX jobs_finished ON jobs (finished_at) WHERE finished_at IS NOT NULL;

-- The embedded queue: what is not finished yet.
CREATE TABLE queue (
  job      INTEGER PRIMARY KEY REFERENCES jobs (id),
  record   BLOB NOT NULL,                          -- the job's record as submitted
  encoding INTEGER NOT NULL,                       -- 0 JSON, 1 msgpack
  worker   INTEGER                                 -- who claimed it; NULL: nobody
) STRICT;

CREATE INDEX queue_free ON queue (job) WHERE worker IS NULL;
CREATE INDEX queue_claimed ON queue (worker) WHERE worker IS NOT NULL;

-- The embedded queue's output topic.
CREATE TABLE results (
  job    INTEGER PRIMARY KEY REFERENCES jobs (id),
  record BLOB NOT NULL                             -- the result's record, JSON
) STRICT;

CREATE TABLE workers (
  id            INTEGER PRIMARY KEY,
  host          TEXT NOT NULL,
  pid           INTEGER NOT NULL,
  transport     TEXT NOT NULL,
  model         TEXT NOT NULL,
  backend       TEXT NOT NULL,
  started_at    INTEGER NOT NULL,
  seen_at       INTEGER NOT NULL,                  -- last record
  stopped_at    INTEGER,                           -- NULL: running, or died
  n_sequences_max INTEGER NOT NULL,
  n_rows_max    INTEGER NOT NULL,
  n_pages       INTEGER NOT NULL,
  page_positions INTEGER NOT NULL,
  -- totals since the start
  n_steps       INTEGER NOT NULL DEFAULT 0,
  n_rows        INTEGER NOT NULL DEFAULT 0,
  n_sequence_steps INTEGER NOT NULL DEFAULT 0,     -- sum of batch sizes
  prefill_tokens INTEGER NOT NULL DEFAULT 0,
  decode_tokens INTEGER NOT NULL DEFAULT 0,
  generated_tokens INTEGER NOT NULL DEFAULT 0,
  busy_us       INTEGER NOT NULL DEFAULT 0,        -- in steps
  prefix_lookups INTEGER NOT NULL DEFAULT 0,       -- the prefix cache
  prefix_hits   INTEGER NOT NULL DEFAULT 0,
  prefix_tokens INTEGER NOT NULL DEFAULT 0,        -- looked up
  tokens_saved  INTEGER NOT NULL DEFAULT 0,
  evictions     INTEGER NOT NULL DEFAULT 0,
  pages_shared  INTEGER NOT NULL DEFAULT 0,        -- now
  pages_idle    INTEGER NOT NULL DEFAULT 0         -- now
) STRICT;

-- One row a step of the engine; the oldest beyond 100,000 are dropped, workers keeps the totals.
CREATE TABLE batches (
  id             INTEGER PRIMARY KEY,
  worker         INTEGER NOT NULL REFERENCES workers (id),
  finished_at    INTEGER NOT NULL,
  size           INTEGER NOT NULL,                 -- sequences
  n_rows         INTEGER NOT NULL,
  prefill_tokens INTEGER NOT NULL,
  decode_tokens  INTEGER NOT NULL,
  generated      INTEGER NOT NULL,
  preempted      INTEGER NOT NULL,                 -- sequences that gave their pages back to start over
  waiting        INTEGER NOT NULL,                 -- sequences in the window
  pages_used     INTEGER NOT NULL,
  prepare_ms     REAL NOT NULL,
  plan_ms        REAL NOT NULL,
  compute_ms     REAL NOT NULL,
  finish_ms      REAL NOT NULL
) STRICT;

CREATE TABLE prefixes (
  worker       INTEGER NOT NULL REFERENCES workers (id),
  hash         INTEGER NOT NULL,
  n_tokens     INTEGER NOT NULL,
  n_hits       INTEGER NOT NULL,
  tokens_saved INTEGER NOT NULL,
  text         TEXT NOT NULL,                      -- its beginning
  PRIMARY KEY (worker, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE partitions (
  topic       TEXT NOT NULL,
  partition   INTEGER NOT NULL,
  worker      INTEGER NOT NULL REFERENCES workers (id), -- its owner
  position    INTEGER NOT NULL,                    -- next offset to be delivered
  committed   INTEGER NOT NULL,                    -- every offset below is finished
  log_end     INTEGER NOT NULL,
  in_flight   INTEGER NOT NULL,
  map_covered INTEGER NOT NULL,                    -- finished above `committed`
  updated_at  INTEGER NOT NULL,
  PRIMARY KEY (topic, partition)
) STRICT, WITHOUT ROWID;

-- Progress and time left of each dataset. The rate is that of the last minute of work.
CREATE VIEW progress AS
SELECT d.dataset,
       d.n_submitted AS submitted,
       d.n_done AS done,
       d.n_failed AS failed,
       d.n_cancelled AS cancelled,
       d.n_submitted - d.n_done - d.n_failed - d.n_cancelled AS remaining,
       round(100.0 * (d.n_done + d.n_failed + d.n_cancelled) / nullif(d.n_submitted, 0), 1) AS percent,
       round(r.rate, 2) AS jobs_per_second,
       CASE WHEN r.rate > 0
            THEN CAST((d.n_submitted - d.n_done - d.n_failed - d.n_cancelled) / r.rate AS INTEGER) END AS seconds_left,
       d.cancelled_at IS NOT NULL AS is_cancelled
FROM datasets d
LEFT JOIN (SELECT dataset, count(*) * 1e6 / max(max(finished_at) - min(finished_at), 1000000) AS rate
           FROM jobs WHERE finished_at > (SELECT max(finished_at) FROM jobs) - 60000000
           GROUP BY dataset) r USING (dataset);

CREATE VIEW failures AS
SELECT dataset, error_code, count(*) AS jobs, min(custom_id) AS example, min(error) AS message
FROM jobs WHERE error_code IS NOT NULL GROUP BY dataset, error_code ORDER BY jobs DESC;

CREATE VIEW throughput_by_minute AS
SELECT strftime('%Y-%m-%d %H:%M', finished_at / 1000000, 'unixepoch') AS minute,
       sum(prefill_tokens) AS prefill_tokens,
       sum(generated) AS generated_tokens,
       round(sum(generated) * 1000.0 / nullif(sum(prepare_ms + plan_ms + compute_ms + finish_ms), 0), 1) AS tokens_per_busy_second,
       round(avg(size), 1) AS mean_batch,
       count(*) AS steps
FROM batches GROUP BY minute ORDER BY minute;

-- What sharing prefixes saved, by worker.
CREATE VIEW cache_benefit AS
SELECT id AS worker,
       prefix_lookups AS lookups,
       prefix_hits AS hits,
       round(100.0 * prefix_hits / nullif(prefix_lookups, 0), 1) AS hit_percent,
       tokens_saved,
       round(100.0 * tokens_saved / nullif(prefix_tokens, 0), 1) AS tokens_saved_percent,
       evictions
FROM workers;

CREATE VIEW lag AS
SELECT topic, partition, worker, log_end - committed - map_covered AS jobs_behind, in_flight, map_covered, committed, log_end
FROM partitions;
