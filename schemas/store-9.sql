-- Schema version 9: the labels of annotated tables; cancelled jobs are no part of the rate.

-- Rows of annotate's table as it was written last, and of these the rows of each label: of columns that a schema or --choice enumerates,
-- and of others with up to 20 different values. An equal row counts as a row, several votes as their majority.
ALTER TABLE datasets ADD COLUMN n_table_rows INTEGER; -- NULL: no table was written
CREATE TABLE table_labels (
  dataset TEXT NOT NULL,
  property TEXT NOT NULL, -- the column's name in the table
  label   TEXT NOT NULL,
  n       INTEGER NOT NULL,
  PRIMARY KEY (dataset, property, label)
) STRICT, WITHOUT ROWID;

-- Progress and time left of each dataset. The rate is that of the last minute of work; cancelled jobs are none.
DROP VIEW progress;
CREATE VIEW progress AS
WITH newest (finished_at_us) AS (
  SELECT max((SELECT coalesce(max(finished_at_us), 0) FROM jobs WHERE topic IS NOT NULL),
             (SELECT coalesce(max(finished_at_us), 0) FROM jobs WHERE topic IS NULL AND finished_at_us IS NOT NULL))),
recent AS (
  SELECT dataset, finished_at_us FROM jobs
  WHERE topic IS NOT NULL AND finished_at_us > (SELECT finished_at_us FROM newest) - 60000000 AND status <> 'cancelled'
  UNION ALL SELECT dataset, finished_at_us FROM jobs
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
LEFT JOIN (SELECT dataset, count(*) * 1e6 / max(max(finished_at_us) - min(finished_at_us), 1000000) AS rate
           FROM recent GROUP BY dataset) r USING (dataset);
