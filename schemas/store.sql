-- The store: one SQLite file in WAL mode. Readable by the sqlite3 shell while workers run.
--
-- It holds two things. The projection (jobs, datasets, steps, prefixes, partitions, workers, fleet) says what happened; it is
-- written after a commit and may be lost and rebuilt. The embedded queue (queue, records, results) is the source of truth when
-- no Kafka is used: submitting, claiming and finishing are SQLite transactions.
--
-- Retention: rows of steps and of jobs over Kafka become sums after 30 days (--retain), and beyond the newest 100,000 steps and
-- 2,000,000 jobs; the sums stay in hours, dataset_hours, compacted_failures, and in the totals of datasets and workers. Answers of
-- the embedded queue are removed only if --retain is given and they were collected. SQLite uses the pages again.
--
-- `_at_us` is microseconds since 1970 UTC; `_us` and `_ms` are durations. This is schema version 14 (PRAGMA user_version), that
-- of sheaf 0.1.0. Later versions have the changes of schemas/store_15.sql, store_16.sql and store_17.sql too.

CREATE TABLE datasets (
  dataset              TEXT PRIMARY KEY,
  submitted_at_us      INTEGER,                    -- first job; NULL: seen on Kafka only
  cancelled_at_us      INTEGER,                    -- NULL: not cancelled
  fingerprint          INTEGER,                    -- hash of the submitted lines: only the same file, or a longer one, resumes
  complete             INTEGER NOT NULL DEFAULT 0, -- 1: every line of the file was submitted
  n_submitted          INTEGER NOT NULL DEFAULT 0,
  n_done               INTEGER NOT NULL DEFAULT 0,
  n_failed             INTEGER NOT NULL DEFAULT 0,
  n_cancelled          INTEGER NOT NULL DEFAULT 0,
  prompt_tokens        INTEGER NOT NULL DEFAULT 0, -- of finished jobs
  completion_tokens    INTEGER NOT NULL DEFAULT 0,
  cached_tokens        INTEGER NOT NULL DEFAULT 0, -- prompt tokens served from shared pages
  first_finished_at_us INTEGER,
  last_finished_at_us  INTEGER,
  collected_at_us      INTEGER,                    -- embedded queue: all its results were written out; NULL: not yet
  compacted_at_us      INTEGER,                    -- its jobs and results were removed; NULL: none was
  -- Everything that the answers depend on besides the jobs, as "name=value" parts separated by spaces: the model's fingerprint,
  -- the backend's arithmetic, the options that change answers. NULL: no job was computed, or by a worker that did not say.
  arithmetic           TEXT,
  model                TEXT,                       -- its name, for people
  n_lines              INTEGER,                    -- of the submitted file
  -- Jobs that were answered from a job with an equal request, and rows of annotate that share an equal row's job. Not in n_done,
  -- prompt_tokens and completion_tokens.
  n_duplicates                INTEGER NOT NULL DEFAULT 0,
  duplicate_prompt_tokens     INTEGER NOT NULL DEFAULT 0,
  duplicate_completion_tokens INTEGER NOT NULL DEFAULT 0,
  n_duplicate_rows            INTEGER NOT NULL DEFAULT 0,
  duplicate_row_tokens        INTEGER NOT NULL DEFAULT 0, -- of prompts and answers
  n_table_rows         INTEGER,                    -- rows of annotate's table as it was written last; NULL: none was written
  -- 1: the jobs are rows of annotate's table, and jobs.job_index is the number of the first row, from 1, that has the job; NULL:
  -- the table that was read last has no such row. Equal rows are one job, and with --votes N a row is N jobs.
  is_table             INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX datasets_unfinished ON datasets (dataset) WHERE n_submitted > n_done + n_failed + n_cancelled;

CREATE TABLE jobs (
  id                INTEGER PRIMARY KEY,           -- order of submission
  dataset           TEXT NOT NULL,
  job_id            TEXT NOT NULL,                 -- annotate's jobs: the hash of prompt and parameters
  custom_id         TEXT NOT NULL,
  job_index         INTEGER,                       -- line of the submitted file, from 1 (datasets.is_table: row)
  -- Not IN (...): for a list of more than two values SQLite builds a temporary index at each check.
  status            TEXT NOT NULL CHECK (status = 'done' OR status = 'failed' OR status = 'cancelled' OR status = 'queued' OR status = 'running'),
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
  submitted_at_us   INTEGER,
  finished_at_us    INTEGER,
  topic             TEXT,                          -- where the record came from; NULL: the embedded queue
  partition         INTEGER,
  offset            INTEGER,
  made_by           TEXT,                          -- fleet.worker; NULL: see worker
  priority          INTEGER NOT NULL DEFAULT 0,    -- the highest runs first
  deadline_us       INTEGER,                       -- since 1970 UTC; NULL: none
  constrained_by    TEXT,                          -- json_object, json, regex, choice, grammar, tools; NULL: the answer was free
  forced_tokens     INTEGER,                       -- of completion_tokens: a constraint left no other, so none was drawn
  -- 16 bytes, equal for equal requests, where the answer is a function of the request alone: greedy or with a seed, without tools.
  -- NULL: it is not, or the job was not computed by this store's workers.
  request_hash      BLOB,
  is_duplicate      INTEGER NOT NULL DEFAULT 0,    -- 1: answered from a job with an equal request
  drafted_tokens    INTEGER,                       -- NULL: none
  accepted_tokens   INTEGER,                       -- of drafted_tokens, and of completion_tokens
  -- The request's hash without max_tokens, where an answer that ended by a stop rule is the answer under each larger max_tokens
  -- too; NULL: other jobs.
  open_hash         BLOB,
  max_tokens        INTEGER,                       -- the request's; NULL: none
  reasoning_tokens  INTEGER,                       -- of completion_tokens: thoughts, without their marks; NULL: none
  UNIQUE (dataset, job_id)
) STRICT;
CREATE INDEX jobs_failed ON jobs (dataset, error_code) WHERE error_code IS NOT NULL;
-- A finished job is in one of these two indexes by time.
CREATE INDEX jobs_of_topics ON jobs (finished_at_us) WHERE topic IS NOT NULL;
CREATE INDEX jobs_of_queue ON jobs (finished_at_us) WHERE topic IS NULL AND finished_at_us IS NOT NULL;
CREATE INDEX jobs_computed ON jobs (request_hash) WHERE request_hash IS NOT NULL AND is_duplicate = 0;
CREATE INDEX jobs_open ON jobs (open_hash) WHERE open_hash IS NOT NULL AND is_duplicate = 0;
-- Where an answer is removed, one of its duplicates takes its place.
CREATE INDEX jobs_copies ON jobs (request_hash) WHERE request_hash IS NOT NULL AND is_duplicate = 1;
CREATE INDEX jobs_open_copies ON jobs (open_hash) WHERE open_hash IS NOT NULL AND is_duplicate = 1;

-- The highest id of a removed job: a worker may still compute that job, so no later one gets its id.
CREATE TABLE deleted_jobs (
  id   INTEGER PRIMARY KEY CHECK (id = 1),
  last INTEGER NOT NULL
) STRICT;

-- The embedded queue: jobs that are not finished. Each claim writes a row, so rows are small.
CREATE TABLE queue (
  job           INTEGER PRIMARY KEY REFERENCES jobs (id),
  worker        INTEGER,                                           -- the worker that claimed it; NULL: none
  priority      INTEGER NOT NULL DEFAULT 0,
  deadline_us   INTEGER NOT NULL DEFAULT 9223372036854775807,      -- this value: none
  crashes       INTEGER NOT NULL DEFAULT 0,                        -- its worker died that often while it may have been computed
  suspect_state INTEGER NOT NULL DEFAULT 0                         -- enum suspect_state in schemas/suspect.h
) STRICT;
CREATE INDEX queue_free ON queue (job) WHERE worker IS NULL;
CREATE INDEX queue_claimed ON queue (worker) WHERE worker IS NOT NULL;
CREATE INDEX queue_urgent ON queue (priority DESC, deadline_us, job) WHERE worker IS NULL;

-- The records of the embedded queue's jobs, also of finished ones, so that these can be queued again.
CREATE TABLE records (
  job      INTEGER PRIMARY KEY REFERENCES jobs (id),
  record   BLOB NOT NULL,                          -- the job's record as submitted
  encoding INTEGER NOT NULL                        -- 0 JSON, 1 msgpack
) STRICT;

CREATE TABLE results (
  job    INTEGER PRIMARY KEY REFERENCES jobs (id),
  record BLOB NOT NULL                             -- the result's record, JSON
) STRICT;

-- Files that annotate, run and collect have written: they overwrite no others.
CREATE TABLE outputs (
  dataset       TEXT NOT NULL,
  path          TEXT NOT NULL,
  digest        BLOB NOT NULL,                     -- of the file as it was written
  written_at_us INTEGER NOT NULL,
  PRIMARY KEY (dataset, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
  id               INTEGER PRIMARY KEY,
  host             TEXT NOT NULL,
  pid              INTEGER NOT NULL,
  transport        TEXT NOT NULL,
  model            TEXT NOT NULL,
  backend          TEXT NOT NULL,
  started_at_us    INTEGER NOT NULL,
  seen_at_us       INTEGER NOT NULL,               -- last record
  stopped_at_us    INTEGER,                        -- NULL: running, or died
  n_sequences_max  INTEGER NOT NULL,
  n_tokens_max     INTEGER NOT NULL,               -- tokens in a step's batch
  n_pages          INTEGER NOT NULL,
  page_positions   INTEGER NOT NULL,
  -- totals since the start
  n_steps          INTEGER NOT NULL DEFAULT 0,
  n_tokens         INTEGER NOT NULL DEFAULT 0,     -- tokens computed in all steps
  n_sequence_steps INTEGER NOT NULL DEFAULT 0,     -- sum of batch sizes
  prefill_tokens   INTEGER NOT NULL DEFAULT 0,
  decode_tokens    INTEGER NOT NULL DEFAULT 0,
  generated_tokens INTEGER NOT NULL DEFAULT 0,
  busy_us          INTEGER NOT NULL DEFAULT 0,     -- in steps
  prefix_lookups   INTEGER NOT NULL DEFAULT 0,     -- the prefix cache
  prefix_hits      INTEGER NOT NULL DEFAULT 0,
  prefix_tokens    INTEGER NOT NULL DEFAULT 0,     -- looked up
  tokens_saved     INTEGER NOT NULL DEFAULT 0,
  evictions        INTEGER NOT NULL DEFAULT 0,
  pages_shared     INTEGER NOT NULL DEFAULT 0,     -- now
  pages_idle       INTEGER NOT NULL DEFAULT 0,     -- now
  arithmetic       TEXT,
  dataset          TEXT,                           -- embedded queue: the only one it takes jobs of; NULL: any
  lock_inode       INTEGER,                        -- of the file whose byte it locks while it lives; an unlocked byte of another file proves no death
  forced_tokens    INTEGER NOT NULL DEFAULT 0,     -- of generated_tokens
  drafted_tokens   INTEGER NOT NULL DEFAULT 0,     -- of decode_tokens
  accepted_tokens  INTEGER NOT NULL DEFAULT 0      -- of drafted_tokens
) STRICT;
CREATE INDEX workers_running ON workers (id) WHERE stopped_at_us IS NULL;

-- A row per step of the engine.
CREATE TABLE steps (
  id             INTEGER PRIMARY KEY,
  worker         INTEGER NOT NULL REFERENCES workers (id),
  finished_at_us INTEGER NOT NULL,
  n_sequences    INTEGER NOT NULL,                 -- in the step's batch
  n_tokens       INTEGER NOT NULL,                 -- in the step's batch
  prefill_tokens INTEGER NOT NULL,
  decode_tokens  INTEGER NOT NULL,
  generated      INTEGER NOT NULL,
  preempted      INTEGER NOT NULL,                 -- sequences that gave their pages back to start over
  waiting        INTEGER NOT NULL,                 -- sequences in the window
  pages_used     INTEGER NOT NULL,
  prepare_ms     REAL NOT NULL,
  plan_ms        REAL NOT NULL,
  compute_ms     REAL NOT NULL,
  finish_ms      REAL NOT NULL,
  forced         INTEGER NOT NULL DEFAULT 0,       -- of generated
  drafted        INTEGER NOT NULL DEFAULT 0,       -- of decode_tokens
  accepted       INTEGER NOT NULL DEFAULT 0        -- of drafted
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
  topic         TEXT NOT NULL,
  partition     INTEGER NOT NULL,
  worker        INTEGER REFERENCES workers (id),   -- its owner; NULL: seen by a mirror
  owner         TEXT,                              -- the group member's name and host, seen by a mirror; NULL: none
  position      INTEGER NOT NULL,                  -- next offset to be delivered; a mirror's: committed
  committed     INTEGER NOT NULL,                  -- every offset below is finished
  log_end       INTEGER NOT NULL,
  in_flight     INTEGER NOT NULL,                  -- a mirror's: 0, workers do not tell
  map_covered   INTEGER NOT NULL,                  -- finished above `committed`
  updated_at_us INTEGER NOT NULL,
  deleted       INTEGER NOT NULL DEFAULT 0,        -- records that retention deleted before the group had read them, as its owner saw
  PRIMARY KEY (topic, partition)
) STRICT, WITHOUT ROWID;

-- How far each topic was read into this store (sheaf mirror). Written with what was read, so that a mirror that starts again
-- continues exactly there.
CREATE TABLE mirrored (
  topic       TEXT NOT NULL,
  partition   INTEGER NOT NULL,
  next_offset INTEGER NOT NULL,
  PRIMARY KEY (topic, partition)
) STRICT, WITHOUT ROWID;

-- The workers that results name, on whichever machine (jobs.made_by).
CREATE TABLE fleet (
  worker               TEXT PRIMARY KEY,
  first_finished_at_us INTEGER NOT NULL,
  last_finished_at_us  INTEGER NOT NULL,
  n_done               INTEGER NOT NULL,
  n_failed             INTEGER NOT NULL,
  n_cancelled          INTEGER NOT NULL,
  prompt_tokens        INTEGER NOT NULL,
  completion_tokens    INTEGER NOT NULL,
  cached_tokens        INTEGER NOT NULL,
  compute_us           INTEGER NOT NULL            -- sum of the jobs' own prefill and decode times: jobs overlap
) STRICT, WITHOUT ROWID;

-- Sums of compacted steps.
CREATE TABLE hours (
  hour           INTEGER PRIMARY KEY,              -- since 1970 UTC
  steps          INTEGER NOT NULL DEFAULT 0,
  sequence_steps INTEGER NOT NULL DEFAULT 0,       -- sum of batch sizes
  n_tokens       INTEGER NOT NULL DEFAULT 0,
  prefill_tokens INTEGER NOT NULL DEFAULT 0,
  decode_tokens  INTEGER NOT NULL DEFAULT 0,
  generated      INTEGER NOT NULL DEFAULT 0,
  preempted      INTEGER NOT NULL DEFAULT 0,
  prepare_ms     REAL NOT NULL DEFAULT 0,
  plan_ms        REAL NOT NULL DEFAULT 0,
  compute_ms     REAL NOT NULL DEFAULT 0,
  finish_ms      REAL NOT NULL DEFAULT 0,
  forced         INTEGER NOT NULL DEFAULT 0,
  drafted        INTEGER NOT NULL DEFAULT 0,
  accepted       INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Sums of compacted jobs.
CREATE TABLE dataset_hours (
  dataset           TEXT NOT NULL,
  hour              INTEGER NOT NULL,              -- since 1970 UTC, in which the jobs finished
  done              INTEGER NOT NULL DEFAULT 0,
  failed            INTEGER NOT NULL DEFAULT 0,
  cancelled         INTEGER NOT NULL DEFAULT 0,
  prompt_tokens     INTEGER NOT NULL DEFAULT 0,
  completion_tokens INTEGER NOT NULL DEFAULT 0,
  cached_tokens     INTEGER NOT NULL DEFAULT 0,
  constrained       INTEGER NOT NULL DEFAULT 0,    -- jobs
  PRIMARY KEY (dataset, hour)
) STRICT, WITHOUT ROWID;

CREATE TABLE compacted_failures (
  dataset    TEXT NOT NULL,
  error_code TEXT NOT NULL,
  jobs       INTEGER NOT NULL,
  example    TEXT NOT NULL,
  message    TEXT,
  PRIMARY KEY (dataset, error_code)
) STRICT, WITHOUT ROWID;

-- Rows of a gold label and an answer, as `sheaf annotate --evaluate` counted them last.
CREATE TABLE evaluations (
  dataset TEXT NOT NULL,
  gold    TEXT NOT NULL,
  answer  TEXT NOT NULL,
  n       INTEGER NOT NULL,
  PRIMARY KEY (dataset, gold, answer)
) STRICT, WITHOUT ROWID;

-- Rows of each label in annotate's table as it was written last: of columns that a schema or --choice enumerates, and of others
-- with up to 20 different values. An equal row counts as a row, several votes as their majority.
CREATE TABLE table_labels (
  dataset  TEXT NOT NULL,
  property TEXT NOT NULL,                          -- the column's name in the table
  label    TEXT NOT NULL,
  n        INTEGER NOT NULL,
  PRIMARY KEY (dataset, property, label)
) STRICT, WITHOUT ROWID;

-- ---- views ----

-- Progress and time left of each dataset. The rate is that of its last minute of work, from the first start of a job that ended in it,
-- or from its beginning, to the last end; NULL where no time passed. Cancelled jobs are no work. A store of workers over Kafka has a
-- dataset's jobs from when a worker takes them, so while those workers' partitions have more, the dataset's total is unknown, and
-- percent and seconds_left are NULL. The unary plus keeps SQLite at the indexes by time: by the dataset's name it would read all its
-- jobs.
CREATE VIEW progress AS
WITH recent AS (
  SELECT d.dataset, d.last_finished_at_us AS newest_us, j.finished_at_us,
         coalesce(j.queued_us, 0) + coalesce(j.prefill_us, 0) + coalesce(j.decode_us, 0) AS job_us
  FROM datasets d CROSS JOIN jobs j
  WHERE j.topic IS NOT NULL AND j.finished_at_us > d.last_finished_at_us - 60000000 AND j.finished_at_us <= d.last_finished_at_us
    AND +j.dataset = d.dataset AND j.status <> 'cancelled'
  UNION ALL
  SELECT d.dataset, d.last_finished_at_us, j.finished_at_us, coalesce(j.queued_us, 0) + coalesce(j.prefill_us, 0) + coalesce(j.decode_us, 0)
  FROM datasets d CROSS JOIN jobs j
  WHERE j.topic IS NULL AND j.finished_at_us IS NOT NULL AND j.finished_at_us > d.last_finished_at_us - 60000000
    AND j.finished_at_us <= d.last_finished_at_us AND +j.dataset = d.dataset AND j.status <> 'cancelled'),
behind (is_behind) AS (
  SELECT EXISTS (SELECT 1 FROM partitions WHERE worker IS NOT NULL AND log_end > max(committed, 0) + map_covered))
SELECT d.dataset,
       d.n_submitted AS submitted,
       d.n_done AS done,
       d.n_failed AS failed,
       d.n_cancelled AS cancelled,
       d.n_submitted - d.n_done - d.n_failed - d.n_cancelled AS remaining,
       CASE WHEN d.submitted_at_us IS NOT NULL OR NOT is_behind
            THEN round(100.0 * (d.n_done + d.n_failed + d.n_cancelled) / nullif(d.n_submitted, 0), 1) END AS percent,
       round(r.rate, 2) AS jobs_per_second,
       CASE WHEN r.rate > 0 AND (d.submitted_at_us IS NOT NULL OR NOT is_behind)
            THEN CAST((d.n_submitted - d.n_done - d.n_failed - d.n_cancelled) / r.rate AS INTEGER) END AS seconds_left,
       d.cancelled_at_us IS NOT NULL AS is_cancelled,
       d.n_duplicates + d.n_duplicate_rows AS duplicates,
       d.submitted_at_us IS NULL AND is_behind AS is_total_unknown
FROM datasets d CROSS JOIN behind
LEFT JOIN (SELECT dataset, count(*) * 1e6 / nullif(max(finished_at_us)
                  - max(min(finished_at_us - job_us), newest_us - 60000000), 0) AS rate
           FROM recent GROUP BY dataset) r USING (dataset);

-- One row's job and message: with a single min() SQLite takes the other columns from the row that holds the minimum
-- (https://sqlite.org/lang_select.html#bareagg).
CREATE VIEW failures AS
SELECT dataset, error_code, sum(n) AS jobs, min(example) AS example, message
FROM (SELECT dataset, error_code, count(*) AS n, min(custom_id) AS example, error AS message
      FROM jobs WHERE error_code IS NOT NULL GROUP BY dataset, error_code
      UNION ALL SELECT dataset, error_code, jobs, example, message FROM compacted_failures)
GROUP BY dataset, error_code ORDER BY jobs DESC;

-- Finished jobs with their answers. `answer` is the first choice's text; NULL: the job failed, or came from Kafka and was not computed
-- by this store's worker. Answers under a schema: `answer ->> 'sentiment'` is a property, json_extract(answer, '$.tags[0]') an item.
CREATE VIEW answers AS
SELECT j.dataset, j.custom_id, j.job_index, j.job_id, j.status, CAST(r.record AS TEXT) ->> '$.choices[0].text' AS answer,
       j.finish_reason, j.prompt_tokens, j.completion_tokens, j.cached_tokens,
       (coalesce(j.queued_us, 0) + coalesce(j.prefill_us, 0) + coalesce(j.decode_us, 0)) / 1e6 AS seconds,
       j.error_code, j.error, j.finished_at_us, j.constrained_by, j.forced_tokens, hex(j.request_hash) AS request_hash, j.is_duplicate,
       j.reasoning_tokens
FROM jobs j LEFT JOIN results r ON r.job = j.id WHERE j.finished_at_us IS NOT NULL;

-- What waits in the embedded queue, the most urgent first. Datasets of one urgency take turns, and each eighth claim goes to the oldest.
CREATE VIEW waiting AS
SELECT q.priority, nullif(q.deadline_us, 9223372036854775807) AS deadline_us, j.dataset, count(*) AS jobs,
       sum(q.crashes > 0) AS suspects, min(j.submitted_at_us) AS oldest_submitted_at_us
FROM queue q JOIN jobs j ON j.id = q.job WHERE q.worker IS NULL
GROUP BY q.priority, q.deadline_us, j.dataset ORDER BY q.priority DESC, q.deadline_us;

-- Finished jobs of each kind of constraint: those whose constraint was refused or could not be met are failed.
CREATE VIEW constraints AS
SELECT dataset, coalesce(constrained_by, 'none') AS constrained_by, count(*) AS jobs, sum(status = 'done') AS done,
       sum(status = 'failed') AS failed, sum(finish_reason IS 'length') AS cut, sum(completion_tokens) AS completion_tokens,
       sum(forced_tokens) AS forced_tokens
FROM jobs WHERE finished_at_us IS NOT NULL GROUP BY 1, 2 ORDER BY dataset, jobs DESC;

-- Draft tokens of each dataset's finished jobs that were computed.
CREATE VIEW speculation AS
SELECT dataset, count(*) AS jobs, sum(drafted_tokens IS NOT NULL) AS jobs_drafted, sum(completion_tokens) AS completion_tokens,
       coalesce(sum(drafted_tokens), 0) AS drafted_tokens, coalesce(sum(accepted_tokens), 0) AS accepted_tokens,
       round(100.0 * sum(accepted_tokens) / nullif(sum(drafted_tokens), 0), 1) AS percent_accepted
FROM jobs WHERE finished_at_us IS NOT NULL AND NOT is_duplicate GROUP BY dataset ORDER BY dataset;

-- Thoughts of each dataset's answered jobs.
CREATE VIEW thoughts AS
SELECT dataset, count(*) AS jobs, count(reasoning_tokens) AS jobs_with_thoughts, sum(completion_tokens) AS completion_tokens,
       coalesce(sum(reasoning_tokens), 0) AS reasoning_tokens,
       round(100.0 * coalesce(sum(reasoning_tokens), 0) / nullif(sum(completion_tokens), 0), 1) AS percent,
       round(avg(reasoning_tokens), 1) AS mean, max(reasoning_tokens) AS longest
FROM jobs WHERE status = 'done' GROUP BY dataset ORDER BY dataset;

CREATE VIEW throughput_by_minute AS
SELECT strftime('%Y-%m-%d %H:%M', finished_at_us / 1000000, 'unixepoch') AS minute,
       sum(prefill_tokens) AS prefill_tokens,
       sum(generated) AS generated_tokens,
       round(sum(generated) * 1000.0 / nullif(sum(prepare_ms + plan_ms + compute_ms + finish_ms), 0), 1) AS tokens_per_busy_second,
       round(avg(n_sequences), 1) AS mean_batch,
       count(*) AS steps,
       sum(forced) AS forced_tokens
FROM steps GROUP BY minute ORDER BY minute;

-- Steps and tokens of all time, compacted ones included.
CREATE VIEW throughput_by_hour AS
SELECT strftime('%Y-%m-%d %H:00', hour * 3600, 'unixepoch') AS hour,
       sum(prefill_tokens) AS prefill_tokens,
       sum(generated) AS generated_tokens,
       round(sum(generated) * 1000.0 / nullif(sum(busy_ms), 0), 1) AS tokens_per_busy_second,
       round(1.0 * sum(sequence_steps) / sum(steps), 1) AS mean_batch,
       sum(steps) AS steps,
       sum(forced) AS forced_tokens
FROM (SELECT hour, prefill_tokens, generated, prepare_ms + plan_ms + compute_ms + finish_ms AS busy_ms, sequence_steps, steps,
             forced
      FROM hours
      UNION ALL SELECT finished_at_us / 3600000000, prefill_tokens, generated,
                       prepare_ms + plan_ms + compute_ms + finish_ms, n_sequences, 1, forced FROM steps)
GROUP BY hour ORDER BY hour;

CREATE VIEW throughput_by_day AS
SELECT substr(hour, 1, 10) AS day, sum(prefill_tokens) AS prefill_tokens, sum(generated_tokens) AS generated_tokens,
       round(sum(mean_batch * steps) / sum(steps), 1) AS mean_batch, sum(steps) AS steps, sum(forced_tokens) AS forced_tokens
FROM throughput_by_hour GROUP BY day ORDER BY day;

-- Finished jobs of all time by dataset and hour, compacted ones included.
CREATE VIEW jobs_by_hour AS
SELECT dataset, strftime('%Y-%m-%d %H:00', hour * 3600, 'unixepoch') AS hour, sum(done) AS done, sum(failed) AS failed,
       sum(cancelled) AS cancelled, sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens,
       sum(cached_tokens) AS cached_tokens, sum(constrained) AS constrained
FROM (SELECT * FROM dataset_hours
      UNION ALL SELECT dataset, finished_at_us / 3600000000, status = 'done', status = 'failed', status = 'cancelled',
                       prompt_tokens, completion_tokens, cached_tokens, constrained_by IS NOT NULL
                FROM jobs WHERE finished_at_us IS NOT NULL)
GROUP BY dataset, hour ORDER BY hour, dataset;

-- Tokens saved by shared prefixes, per worker.
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
SELECT topic, partition, worker, owner, log_end - max(committed, 0) - map_covered AS jobs_behind, in_flight,
       map_covered, committed, log_end
FROM partitions;

CREATE VIEW fleet_throughput AS
SELECT worker, n_done, n_failed, n_cancelled,
       round((n_done + n_failed + n_cancelled) * 1e6 / max(last_finished_at_us - first_finished_at_us, 1000000), 2)
         AS jobs_per_second,
       round(completion_tokens * 1e6 / max(last_finished_at_us - first_finished_at_us, 1000000), 1) AS tokens_per_second,
       round(100.0 * cached_tokens / nullif(prompt_tokens, 0), 1) AS cached_percent,
       strftime('%Y-%m-%d %H:%M:%S', last_finished_at_us / 1000000, 'unixepoch') AS last_finished
FROM fleet ORDER BY worker;
