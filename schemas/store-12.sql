-- Schema version 12: answers under a larger max_tokens, the rows of a table, a dataset's outputs, and the rate of each dataset by itself.
--
-- Since this version the answers of a dataset are removed only where --retain is given; rows of steps and of jobs over Kafka become sums
-- after 30 days, as ever.

-- A job's request without max_tokens, where an answer that ended by a stop rule is the answer under each larger max_tokens too; NULL: of
-- others, and of jobs that ended otherwise.
ALTER TABLE jobs ADD COLUMN open_hash BLOB;
ALTER TABLE jobs ADD COLUMN max_tokens INTEGER; -- as the request has it; NULL: it names none
CREATE INDEX jobs_open ON jobs (open_hash) WHERE open_hash IS NOT NULL AND is_duplicate = 0;

-- 1: the jobs are rows of annotate's table. Then jobs.job_index is the number of the first row, from 1, that has the job; NULL: the table
-- that was read last has no such row. Equal rows are one job, and with --votes N a row is N.
ALTER TABLE datasets ADD COLUMN is_table INTEGER NOT NULL DEFAULT 0;
UPDATE datasets SET is_table = 1 WHERE fingerprint IS NULL AND EXISTS
  (SELECT 1 FROM jobs WHERE jobs.dataset = datasets.dataset AND job_index IS NULL AND topic IS NULL);

-- 1: an earlier version made the dataset. Its output files are not in `outputs`, and annotate's job names are hashes of requests whose schema
-- still has title, description, examples and $comment.
ALTER TABLE datasets ADD COLUMN is_older INTEGER NOT NULL DEFAULT 0;
UPDATE datasets SET is_older = 1;

-- Files that annotate, run and collect have written: they overwrite no others.
CREATE TABLE outputs (
  dataset       TEXT NOT NULL,
  path          TEXT NOT NULL,
  digest        BLOB NOT NULL, -- of the file as it was written
  written_at_us INTEGER NOT NULL,
  PRIMARY KEY (dataset, path)
) STRICT, WITHOUT ROWID;

-- As in version 11, but the last minute of work is the dataset's own: another dataset's work does not end it. The unary plus keeps SQLite
-- at the indexes by time: by the dataset's name it would read all its jobs.
DROP VIEW progress;
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
