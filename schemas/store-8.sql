-- Schema version 8: equal requests of a dataset are computed once.

-- 16 bytes, equal for equal requests, where the answer is a function of the request alone: greedy or with a seed, without tools.
-- NULL: it is not, or the job was not computed by this store's workers.
ALTER TABLE jobs ADD COLUMN request_hash BLOB;
ALTER TABLE jobs ADD COLUMN is_duplicate INTEGER NOT NULL DEFAULT 0; -- 1: answered from a job with an equal request
CREATE INDEX jobs_computed ON jobs (request_hash) WHERE request_hash IS NOT NULL AND is_duplicate = 0;

-- Of these jobs, and of rows of annotate that have an equal row's job: among n_done, prompt_tokens and completion_tokens only the jobs.
ALTER TABLE datasets ADD COLUMN n_duplicates INTEGER NOT NULL DEFAULT 0;
ALTER TABLE datasets ADD COLUMN duplicate_prompt_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE datasets ADD COLUMN duplicate_completion_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE datasets ADD COLUMN n_duplicate_rows INTEGER NOT NULL DEFAULT 0;
ALTER TABLE datasets ADD COLUMN duplicate_row_tokens INTEGER NOT NULL DEFAULT 0; -- of prompts and answers

-- Progress and time left of each dataset. The rate is that of the last minute of work.
DROP VIEW progress;
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
       d.cancelled_at_us IS NOT NULL AS is_cancelled,
       d.n_duplicates + d.n_duplicate_rows AS duplicates
FROM datasets d
LEFT JOIN (SELECT dataset, count(*) * 1e6 / max(max(finished_at_us) - min(finished_at_us), 1000000) AS rate
           FROM recent GROUP BY dataset) r USING (dataset);

-- Finished jobs with their answers. `answer` is the first choice's text, NULL of a failed job and of Kafka's, unless this store's worker
-- computed it. Of answers by a schema `answer ->> 'sentiment'` is a property, json_extract(answer, '$.tags[0]') an item of one. `job_id`
-- is, of annotate's jobs, the hash of prompt and parameters: equal requests are one job. Of other jobs equal requests have one
-- `request_hash`, and one of them was computed.
DROP VIEW answers;
CREATE VIEW answers AS
SELECT j.dataset, j.custom_id, j.job_index, j.job_id, j.status, CAST(r.record AS TEXT) ->> '$.choices[0].text' AS answer,
       j.finish_reason, j.prompt_tokens, j.completion_tokens, j.cached_tokens,
       (coalesce(j.queued_us, 0) + coalesce(j.prefill_us, 0) + coalesce(j.decode_us, 0)) / 1e6 AS seconds,
       j.error_code, j.error, j.finished_at_us, j.constrained_by, j.forced_tokens, hex(j.request_hash) AS request_hash, j.is_duplicate
FROM jobs j LEFT JOIN results r ON r.job = j.id WHERE j.finished_at_us IS NOT NULL;
