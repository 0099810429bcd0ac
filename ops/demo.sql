-- The figures of the demo's store.

CREATE TEMP TABLE work AS
SELECT sum(n_steps) AS n_steps, sum(n_sequence_steps) AS n_sequence_steps, sum(generated_tokens) AS generated_tokens,
       sum(busy_us) / 1e6 AS busy_s, sum(prefix_lookups) AS lookups, sum(prefix_hits) AS hits,
       sum(prefix_tokens) AS prefix_tokens, sum(tokens_saved) AS tokens_saved
FROM workers;

.mode box --wrap 0
SELECT 'jobs done' AS figure, format('%,d', n_done) AS value FROM datasets WHERE dataset = 'reviews'
UNION ALL SELECT 'jobs failed', format('%,d', n_failed) FROM datasets WHERE dataset = 'reviews'
UNION ALL SELECT 'jobs a second, while computing', format('%.0f', n_done / busy_s) FROM datasets, work
          WHERE dataset = 'reviews'
UNION ALL SELECT 'tokens a second: prompts and answers', format('%,d', (prompt_tokens + completion_tokens) / busy_s)
          FROM datasets, work WHERE dataset = 'reviews'
UNION ALL SELECT 'tokens a second: answers alone', format('%,d', generated_tokens / busy_s) FROM work
UNION ALL SELECT 'mean batch size', format('%.1f', 1.0 * n_sequence_steps / n_steps) FROM work
UNION ALL SELECT 'prefix-cache hit rate', format('%.1f %%', 100.0 * hits / lookups) FROM work
UNION ALL SELECT 'prompt tokens from the prefix cache', format('%,d (%.1f %%)', tokens_saved,
                                                            100.0 * tokens_saved / prefix_tokens) FROM work;
