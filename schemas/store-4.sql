-- Schema version 4: a finished job costs less. What the tables hold and show stays as it was.

-- SQLite builds a temporary index of a list each time it checks IN (more than two values), which was half of what writing a job
-- cost. A constraint is changed without copying the table as https://sqlite.org/lang_altertable.html says ("Making Other Kinds
-- Of Table Schema Changes"); the index below counts the schema's version up.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (status IN (''queued'', ''running'', ''done'', ''failed'', ''cancelled''))',
  'CHECK (status = ''done'' OR status = ''failed'' OR status = ''cancelled'' OR status = ''queued'' OR status = ''running'')')
WHERE type = 'table' AND name = 'jobs';
PRAGMA writable_schema = RESET;

-- A finished job stands in one index by time: jobs_of_topics or this one.
DROP INDEX jobs_finished;
CREATE INDEX jobs_of_queue ON jobs (finished_at) WHERE topic IS NULL AND finished_at IS NOT NULL;

DROP VIEW progress;
CREATE VIEW progress AS
WITH newest (finished_at) AS (
  SELECT max((SELECT coalesce(max(finished_at), 0) FROM jobs WHERE topic IS NOT NULL),
             (SELECT coalesce(max(finished_at), 0) FROM jobs WHERE topic IS NULL AND finished_at IS NOT NULL))),
recent AS (
  SELECT dataset, finished_at FROM jobs
  WHERE topic IS NOT NULL AND finished_at > (SELECT finished_at FROM newest) - 60000000
  UNION ALL SELECT dataset, finished_at FROM jobs
  WHERE topic IS NULL AND finished_at IS NOT NULL AND finished_at > (SELECT finished_at FROM newest) - 60000000)
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
           FROM recent GROUP BY dataset) r USING (dataset);
