-- Schema version 3: priorities and deadlines, crashes counted, old rows folded into sums.
--
-- What is older than the workers' --retain (30 days unless told) is folded: its rows go, their sums stay for ever in
-- `hours`, `dataset_hours`, `folded_failures` and in the totals of `datasets` and `workers`. A job goes when its dataset
-- is finished and collected (embedded queue), or when it is older than that or beyond the newest 2,000,000 (Kafka,
-- whose results topic has the answer); a step when it is older or beyond the newest 100,000. What is queued, running
-- or not collected stays. SQLite uses the pages again.

ALTER TABLE datasets ADD COLUMN collected_at INTEGER;  -- embedded queue: all its results were written out; NULL: not yet
ALTER TABLE datasets ADD COLUMN folded_at INTEGER;     -- its jobs and results were removed; NULL: none was
ALTER TABLE jobs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0; -- the highest runs first
ALTER TABLE jobs ADD COLUMN deadline INTEGER;          -- NULL: none
ALTER TABLE queue ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN deadline INTEGER NOT NULL DEFAULT 9223372036854775807; -- that: none
-- How often a job's worker died while it may have been computed, and what it is now: 0 it may be computed, 1 it is one of a
-- few suspects that are, 2 it is computed alone.
ALTER TABLE queue ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN computed INTEGER NOT NULL DEFAULT 0;

CREATE INDEX jobs_of_topics ON jobs (finished_at) WHERE topic IS NOT NULL; -- what may be folded
CREATE INDEX queue_urgent ON queue (priority DESC, deadline, job) WHERE worker IS NULL;

CREATE TABLE hours (
  hour           INTEGER PRIMARY KEY,              -- since 1970 UTC
  steps          INTEGER NOT NULL DEFAULT 0,
  sequence_steps INTEGER NOT NULL DEFAULT 0,       -- sum of batch sizes
  n_rows         INTEGER NOT NULL DEFAULT 0,
  prefill_tokens INTEGER NOT NULL DEFAULT 0,
  decode_tokens  INTEGER NOT NULL DEFAULT 0,
  generated      INTEGER NOT NULL DEFAULT 0,
  preempted      INTEGER NOT NULL DEFAULT 0,
  prepare_ms     REAL NOT NULL DEFAULT 0,
  plan_ms        REAL NOT NULL DEFAULT 0,
  compute_ms     REAL NOT NULL DEFAULT 0,
  finish_ms      REAL NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE dataset_hours (
  dataset           TEXT NOT NULL,
  hour              INTEGER NOT NULL,              -- since 1970 UTC, in which the jobs finished
  done              INTEGER NOT NULL DEFAULT 0,
  failed            INTEGER NOT NULL DEFAULT 0,
  cancelled         INTEGER NOT NULL DEFAULT 0,
  prompt_tokens     INTEGER NOT NULL DEFAULT 0,
  completion_tokens INTEGER NOT NULL DEFAULT 0,
  cached_tokens     INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (dataset, hour)
) STRICT, WITHOUT ROWID;

CREATE TABLE folded_failures (
  dataset    TEXT NOT NULL,
  error_code TEXT NOT NULL,
  jobs       INTEGER NOT NULL,
  example    TEXT NOT NULL,
  message    TEXT,
  PRIMARY KEY (dataset, error_code)
) STRICT, WITHOUT ROWID;

DROP VIEW failures;
CREATE VIEW failures AS
SELECT dataset, error_code, sum(n) AS jobs, min(example) AS example, min(message) AS message
FROM (SELECT dataset, error_code, count(*) AS n, min(custom_id) AS example, min(error) AS message
      FROM jobs WHERE error_code IS NOT NULL GROUP BY dataset, error_code
      UNION ALL SELECT dataset, error_code, jobs, example, message FROM folded_failures)
GROUP BY dataset, error_code ORDER BY jobs DESC;

-- Steps and tokens of all time, what was folded included.
CREATE VIEW throughput_by_hour AS
SELECT strftime('%Y-%m-%d %H:00', hour * 3600, 'unixepoch') AS hour,
       sum(prefill_tokens) AS prefill_tokens,
       sum(generated) AS generated_tokens,
       round(sum(generated) * 1000.0 / nullif(sum(busy_ms), 0), 1) AS tokens_per_busy_second,
       round(1.0 * sum(sequence_steps) / sum(steps), 1) AS mean_batch,
       sum(steps) AS steps
FROM (SELECT hour, prefill_tokens, generated, prepare_ms + plan_ms + compute_ms + finish_ms AS busy_ms, sequence_steps, steps
      FROM hours
      UNION ALL SELECT finished_at / 3600000000, prefill_tokens, generated,
                       prepare_ms + plan_ms + compute_ms + finish_ms, size, 1 FROM batches)
GROUP BY hour ORDER BY hour;

CREATE VIEW throughput_by_day AS
SELECT substr(hour, 1, 10) AS day, sum(prefill_tokens) AS prefill_tokens, sum(generated_tokens) AS generated_tokens,
       round(sum(mean_batch * steps) / sum(steps), 1) AS mean_batch, sum(steps) AS steps
FROM throughput_by_hour GROUP BY day ORDER BY day;

-- Finished jobs of all time by dataset and hour, what was folded included.
CREATE VIEW jobs_by_hour AS
SELECT dataset, strftime('%Y-%m-%d %H:00', hour * 3600, 'unixepoch') AS hour, sum(done) AS done, sum(failed) AS failed,
       sum(cancelled) AS cancelled, sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens,
       sum(cached_tokens) AS cached_tokens
FROM (SELECT * FROM dataset_hours
      UNION ALL SELECT dataset, finished_at / 3600000000, status = 'done', status = 'failed', status = 'cancelled',
                       prompt_tokens, completion_tokens, cached_tokens FROM jobs WHERE finished_at IS NOT NULL)
GROUP BY dataset, hour ORDER BY hour, dataset;

-- What waits in the embedded queue, in the order in which it is taken; but every eighth place goes to the oldest.
CREATE VIEW waiting AS
SELECT q.priority, nullif(q.deadline, 9223372036854775807) AS deadline, j.dataset, count(*) AS jobs,
       sum(q.crashes > 0) AS suspects, min(j.submitted_at) AS oldest_submitted_at
FROM queue q JOIN jobs j ON j.id = q.job WHERE q.worker IS NULL
GROUP BY q.priority, q.deadline, j.dataset ORDER BY q.priority DESC, q.deadline;
