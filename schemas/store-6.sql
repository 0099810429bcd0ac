-- Schema version 6: names. A time has its unit, a step is called a step, and tokens are not rows. All views are as
-- follows; earlier definitions are dropped, because a view may name renamed columns.

DROP VIEW progress;
DROP VIEW failures;
DROP VIEW throughput_by_minute;
DROP VIEW throughput_by_hour;
DROP VIEW throughput_by_day;
DROP VIEW jobs_by_hour;
DROP VIEW cache_benefit;
DROP VIEW lag;
DROP VIEW fleet_throughput;
DROP VIEW waiting;

-- `_at_us` is microseconds since 1970 UTC, `_us` and `_ms` are durations.
ALTER TABLE datasets RENAME COLUMN submitted_at TO submitted_at_us;
ALTER TABLE datasets RENAME COLUMN cancelled_at TO cancelled_at_us;
ALTER TABLE datasets RENAME COLUMN first_finished_at TO first_finished_at_us;
ALTER TABLE datasets RENAME COLUMN last_finished_at TO last_finished_at_us;
ALTER TABLE datasets RENAME COLUMN collected_at TO collected_at_us;
ALTER TABLE datasets RENAME COLUMN folded_at TO compacted_at_us;   -- its jobs and results were removed; NULL: none was
ALTER TABLE jobs RENAME COLUMN submitted_at TO submitted_at_us;
ALTER TABLE jobs RENAME COLUMN finished_at TO finished_at_us;
ALTER TABLE jobs RENAME COLUMN deadline TO deadline_us;            -- since 1970 UTC; NULL: none
ALTER TABLE jobs RENAME COLUMN position TO job_index;              -- the job's `index` (INDEX is a word of SQL)
ALTER TABLE queue RENAME COLUMN deadline TO deadline_us;           -- 9223372036854775807: none
ALTER TABLE queue RENAME COLUMN computed TO suspect_state;         -- enum suspect_state in schemas/suspect.h
ALTER TABLE workers RENAME COLUMN started_at TO started_at_us;
ALTER TABLE workers RENAME COLUMN seen_at TO seen_at_us;
ALTER TABLE workers RENAME COLUMN stopped_at TO stopped_at_us;
ALTER TABLE workers RENAME COLUMN n_rows_max TO n_tokens_max;      -- tokens in a step's batch
ALTER TABLE workers RENAME COLUMN n_rows TO n_tokens;              -- tokens computed in all steps
ALTER TABLE fleet RENAME COLUMN first_finished_at TO first_finished_at_us;
ALTER TABLE fleet RENAME COLUMN last_finished_at TO last_finished_at_us;
ALTER TABLE partitions RENAME COLUMN updated_at TO updated_at_us;

-- Retention replaces old rows by sums (version 3 calls that folding): that is compacting now.
ALTER TABLE folded_failures RENAME TO compacted_failures;

-- Rows of a gold label and an answer, as `sheaf annotate --evaluate` counted them last.
CREATE TABLE evaluations (
  dataset TEXT NOT NULL,
  gold    TEXT NOT NULL,
  answer  TEXT NOT NULL,
  n       INTEGER NOT NULL,
  PRIMARY KEY (dataset, gold, answer)
) STRICT, WITHOUT ROWID;

-- One row per step of the engine.
ALTER TABLE batches RENAME TO steps;
ALTER TABLE steps RENAME COLUMN finished_at TO finished_at_us;
ALTER TABLE steps RENAME COLUMN size TO n_sequences;               -- in the step's batch
ALTER TABLE steps RENAME COLUMN n_rows TO n_tokens;                -- in the step's batch
ALTER TABLE hours RENAME COLUMN n_rows TO n_tokens;

-- The steps under their earlier names.
CREATE VIEW batches AS
SELECT id, worker, finished_at_us AS finished_at, n_sequences AS size, n_tokens AS n_rows, prefill_tokens, decode_tokens,
       generated, preempted, waiting, pages_used, prepare_ms, plan_ms, compute_ms, finish_ms
FROM steps;

-- Progress and time left of each dataset. The rate is that of the last minute of work.
CREATE VIEW progress AS
WITH newest (finished_at_us) AS (
  SELECT max((SELECT coalesce(max(finished_at_us), 0) FROM jobs WHERE topic IS NOT NULL),
             (SELECT coalesce(max(finished_at_us), 0) FROM jobs WHERE topic IS NULL AND finished_at_us IS NOT NULL))),
recent AS (
  SELECT dataset, finished_at_us FROM jobs
  WHERE topic IS NOT NULL AND finished_at_us > (SELECT finished_at_us FROM newest) - 60000000
  UNION ALL SELECT dataset, finished_at_us FROM jobs
  WHERE topic IS NULL AND finished_at_us IS NOT NULL AND finished_at_us > (SELECT finished_at_us FROM newest) - 60000000)
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
       d.cancelled_at_us IS NOT NULL AS is_cancelled
FROM datasets d
LEFT JOIN (SELECT dataset, count(*) * 1e6 / max(max(finished_at_us) - min(finished_at_us), 1000000) AS rate
           FROM recent GROUP BY dataset) r USING (dataset);

-- One row's job and message: with a single min() SQLite takes the other columns from the row that holds the minimum
-- (https://sqlite.org/lang_select.html#bareagg).
CREATE VIEW failures AS
SELECT dataset, error_code, sum(n) AS jobs, min(example) AS example, message
FROM (SELECT dataset, error_code, count(*) AS n, min(custom_id) AS example, error AS message
      FROM jobs WHERE error_code IS NOT NULL GROUP BY dataset, error_code
      UNION ALL SELECT dataset, error_code, jobs, example, message FROM compacted_failures)
GROUP BY dataset, error_code ORDER BY jobs DESC;

CREATE VIEW throughput_by_minute AS
SELECT strftime('%Y-%m-%d %H:%M', finished_at_us / 1000000, 'unixepoch') AS minute,
       sum(prefill_tokens) AS prefill_tokens,
       sum(generated) AS generated_tokens,
       round(sum(generated) * 1000.0 / nullif(sum(prepare_ms + plan_ms + compute_ms + finish_ms), 0), 1) AS tokens_per_busy_second,
       round(avg(n_sequences), 1) AS mean_batch,
       count(*) AS steps
FROM steps GROUP BY minute ORDER BY minute;

-- Steps and tokens of all time, compacted ones included.
CREATE VIEW throughput_by_hour AS
SELECT strftime('%Y-%m-%d %H:00', hour * 3600, 'unixepoch') AS hour,
       sum(prefill_tokens) AS prefill_tokens,
       sum(generated) AS generated_tokens,
       round(sum(generated) * 1000.0 / nullif(sum(busy_ms), 0), 1) AS tokens_per_busy_second,
       round(1.0 * sum(sequence_steps) / sum(steps), 1) AS mean_batch,
       sum(steps) AS steps
FROM (SELECT hour, prefill_tokens, generated, prepare_ms + plan_ms + compute_ms + finish_ms AS busy_ms, sequence_steps, steps
      FROM hours
      UNION ALL SELECT finished_at_us / 3600000000, prefill_tokens, generated,
                       prepare_ms + plan_ms + compute_ms + finish_ms, n_sequences, 1 FROM steps)
GROUP BY hour ORDER BY hour;

CREATE VIEW throughput_by_day AS
SELECT substr(hour, 1, 10) AS day, sum(prefill_tokens) AS prefill_tokens, sum(generated_tokens) AS generated_tokens,
       round(sum(mean_batch * steps) / sum(steps), 1) AS mean_batch, sum(steps) AS steps
FROM throughput_by_hour GROUP BY day ORDER BY day;

-- Finished jobs of all time by dataset and hour, compacted ones included.
CREATE VIEW jobs_by_hour AS
SELECT dataset, strftime('%Y-%m-%d %H:00', hour * 3600, 'unixepoch') AS hour, sum(done) AS done, sum(failed) AS failed,
       sum(cancelled) AS cancelled, sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens,
       sum(cached_tokens) AS cached_tokens
FROM (SELECT * FROM dataset_hours
      UNION ALL SELECT dataset, finished_at_us / 3600000000, status = 'done', status = 'failed', status = 'cancelled',
                       prompt_tokens, completion_tokens, cached_tokens FROM jobs WHERE finished_at_us IS NOT NULL)
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

-- The embedded queue's waiting jobs in the order of claims, except that every eighth claim is the oldest job's.
CREATE VIEW waiting AS
SELECT q.priority, nullif(q.deadline_us, 9223372036854775807) AS deadline_us, j.dataset, count(*) AS jobs,
       sum(q.crashes > 0) AS suspects, min(j.submitted_at_us) AS oldest_submitted_at_us
FROM queue q JOIN jobs j ON j.id = q.job WHERE q.worker IS NULL
GROUP BY q.priority, q.deadline_us, j.dataset ORDER BY q.priority DESC, q.deadline_us;

-- Finished jobs with their answers. `answer` is the first choice's text, NULL of a failed job and of Kafka's, whose results are in their
-- topic. Of answers by a schema `answer ->> 'sentiment'` is a property, json_extract(answer, '$.tags[0]') an item of one. `job_id` is,
-- of annotate's jobs, the hash of prompt and parameters: equal requests are one job.
CREATE VIEW answers AS
SELECT j.dataset, j.custom_id, j.job_index, j.job_id, j.status, CAST(r.record AS TEXT) ->> '$.choices[0].text' AS answer,
       j.finish_reason, j.prompt_tokens, j.completion_tokens, j.cached_tokens,
       (coalesce(j.queued_us, 0) + coalesce(j.prefill_us, 0) + coalesce(j.decode_us, 0)) / 1e6 AS seconds,
       j.error_code, j.error, j.finished_at_us
FROM jobs j LEFT JOIN results r ON r.job = j.id WHERE j.finished_at_us IS NOT NULL;
