-- Schema version 10: the rate of a dataset that takes less than a second.

-- Progress and time left of each dataset. The rate is that of the last minute of work, from the first start of a job that ended in it, or
-- from its beginning, to the last end; NULL where no time passed. Cancelled jobs are no work.
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
    AND status <> 'cancelled')
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
LEFT JOIN (SELECT dataset, count(*) * 1e6 / nullif(max(finished_at_us)
                  - max(min(finished_at_us - job_us), (SELECT finished_at_us FROM newest) - 60000000), 0) AS rate
           FROM recent GROUP BY dataset) r USING (dataset);
