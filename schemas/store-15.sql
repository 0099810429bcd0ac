-- Version 15: tokens of thoughts.
ALTER TABLE jobs ADD COLUMN reasoning_tokens INTEGER; -- of completion_tokens: thoughts, without their marks; NULL: none, or before version 15

-- As in version 14, with reasoning_tokens.
DROP VIEW answers;
CREATE VIEW answers AS
SELECT j.dataset, j.custom_id, j.job_index, j.job_id, j.status, CAST(r.record AS TEXT) ->> '$.choices[0].text' AS answer,
       j.finish_reason, j.prompt_tokens, j.completion_tokens, j.cached_tokens,
       (coalesce(j.queued_us, 0) + coalesce(j.prefill_us, 0) + coalesce(j.decode_us, 0)) / 1e6 AS seconds,
       j.error_code, j.error, j.finished_at_us, j.constrained_by, j.forced_tokens, hex(j.request_hash) AS request_hash, j.is_duplicate,
       j.reasoning_tokens
FROM jobs j LEFT JOIN results r ON r.job = j.id WHERE j.finished_at_us IS NOT NULL;

-- Thoughts of each dataset's answered jobs.
CREATE VIEW thoughts AS
SELECT dataset, count(*) AS jobs, count(reasoning_tokens) AS jobs_with_thoughts, sum(completion_tokens) AS completion_tokens,
       coalesce(sum(reasoning_tokens), 0) AS reasoning_tokens,
       round(100.0 * coalesce(sum(reasoning_tokens), 0) / nullif(sum(completion_tokens), 0), 1) AS percent,
       round(avg(reasoning_tokens), 1) AS mean, max(reasoning_tokens) AS longest
FROM jobs WHERE status = 'done' GROUP BY dataset ORDER BY dataset;
