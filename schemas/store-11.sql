-- Schema version 11: speculation, and progress over Kafka. How many draft tokens were computed, and how many of them the answers have. Rows of earlier versions
-- count none.

ALTER TABLE jobs ADD COLUMN drafted_tokens INTEGER;      -- NULL: none
ALTER TABLE jobs ADD COLUMN accepted_tokens INTEGER;     -- of drafted_tokens, and of completion_tokens
ALTER TABLE steps ADD COLUMN drafted INTEGER NOT NULL DEFAULT 0;         -- of decode_tokens
ALTER TABLE steps ADD COLUMN accepted INTEGER NOT NULL DEFAULT 0;        -- of drafted
ALTER TABLE hours ADD COLUMN drafted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hours ADD COLUMN accepted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN drafted_tokens INTEGER NOT NULL DEFAULT 0; -- of decode_tokens
ALTER TABLE workers ADD COLUMN accepted_tokens INTEGER NOT NULL DEFAULT 0;

-- Draft tokens of each dataset's finished jobs that were computed.
CREATE VIEW speculation AS
SELECT dataset, count(*) AS jobs, sum(drafted_tokens IS NOT NULL) AS jobs_drafted, sum(completion_tokens) AS completion_tokens,
       coalesce(sum(drafted_tokens), 0) AS drafted_tokens, coalesce(sum(accepted_tokens), 0) AS accepted_tokens,
       round(100.0 * sum(accepted_tokens) / nullif(sum(drafted_tokens), 0), 1) AS percent_accepted
FROM jobs WHERE finished_at_us IS NOT NULL AND NOT is_duplicate GROUP BY dataset ORDER BY dataset;

-- As in version 10, but for the store of workers over Kafka: it has a dataset's jobs from when a worker takes them, so while those workers'
-- partitions have more, the dataset's total is unknown, and with it percent and seconds_left (NULL). A mirror's store has all jobs.
DROP VIEW progress;
CREATE VIEW progress AS
WITH newest (finished_at_us) AS (
  SELECT max((SELECT coalesce(max(finished_at_us), 0) FROM jobs WHERE topic IS NOT NULL),
             (SELECT coalesce(max(finished_at_us), 0) FROM jobs WHERE topic IS NULL AND finished_at_us IS NOT NULL))),
recent AS (
  SELECT dataset, finished_at_us, coalesce(queued_us, 0) + coalesce(prefill_us, 0) + coalesce(decode_us, 0) AS job_us FROM jobs
  WHERE topic IS NOT NULL AND finished_at_us > (SELECT finished_at_us FROM newest) - 60000000 AND status <> 'cancelled'
  UNION ALL
  SELECT dataset, finished_at_us, coalesce(queued_us, 0) + coalesce(prefill_us, 0) + coalesce(decode_us, 0) FROM jobs
  WHERE topic IS NULL AND finished_at_us IS NOT NULL AND finished_at_us > (SELECT finished_at_us FROM newest) - 60000000
    AND status <> 'cancelled'),
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
                  - max(min(finished_at_us - job_us), (SELECT finished_at_us FROM newest) - 60000000), 0) AS rate
           FROM recent GROUP BY dataset) r USING (dataset);
