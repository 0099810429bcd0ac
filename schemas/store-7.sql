-- Schema version 7: constraints. How many jobs had one, and how many tokens it left no choice of. Rows of earlier versions don't know:
-- they count none.

ALTER TABLE jobs ADD COLUMN constrained_by TEXT;         -- json_object, json, regex, choice, grammar, tools; NULL: the answer was free
ALTER TABLE jobs ADD COLUMN forced_tokens INTEGER;       -- of completion_tokens: a constraint left no other, so none was drawn
ALTER TABLE steps ADD COLUMN forced INTEGER NOT NULL DEFAULT 0;         -- of generated
ALTER TABLE hours ADD COLUMN forced INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN forced_tokens INTEGER NOT NULL DEFAULT 0; -- of generated_tokens
ALTER TABLE dataset_hours ADD COLUMN constrained INTEGER NOT NULL DEFAULT 0; -- jobs

DROP VIEW throughput_by_minute;
DROP VIEW throughput_by_day;
DROP VIEW throughput_by_hour;
DROP VIEW jobs_by_hour;
DROP VIEW answers;

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

-- Finished jobs with their answers. `answer` is the first choice's text, NULL of a failed job and of Kafka's, whose results are in their
-- topic. Of answers by a schema `answer ->> 'sentiment'` is a property, json_extract(answer, '$.tags[0]') an item of one. `job_id` is,
-- of annotate's jobs, the hash of prompt and parameters: equal requests are one job.
CREATE VIEW answers AS
SELECT j.dataset, j.custom_id, j.job_index, j.job_id, j.status, CAST(r.record AS TEXT) ->> '$.choices[0].text' AS answer,
       j.finish_reason, j.prompt_tokens, j.completion_tokens, j.cached_tokens,
       (coalesce(j.queued_us, 0) + coalesce(j.prefill_us, 0) + coalesce(j.decode_us, 0)) / 1e6 AS seconds,
       j.error_code, j.error, j.finished_at_us, j.constrained_by, j.forced_tokens
FROM jobs j LEFT JOIN results r ON r.job = j.id WHERE j.finished_at_us IS NOT NULL;

-- Finished jobs of each kind of constraint: those whose constraint was refused or could not be met are failed.
CREATE VIEW constraints AS
SELECT dataset, coalesce(constrained_by, 'none') AS constrained_by, count(*) AS jobs, sum(status = 'done') AS done,
       sum(status = 'failed') AS failed, sum(finish_reason IS 'length') AS cut, sum(completion_tokens) AS completion_tokens,
       sum(forced_tokens) AS forced_tokens
FROM jobs WHERE finished_at_us IS NOT NULL GROUP BY 1, 2 ORDER BY dataset, jobs DESC;
