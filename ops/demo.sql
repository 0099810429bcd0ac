-- What the demo's store tells, with the answers compared with the labels known for them. Run where answers.jsonl and
-- labels.jsonl stand: a line of each is a JSON object, so the file with commas for line feeds is a JSON array.

CREATE TEMP TABLE labels AS
SELECT value ->> 'custom_id' AS custom_id, value ->> 'sentiment' AS sentiment, value ->> 'topic' AS topic
FROM json_each('[' || replace(trim(CAST(readfile('labels.jsonl') AS TEXT), char(10)), char(10), ',') || ']');

CREATE TEMP TABLE answers AS
SELECT custom_id, iif(json_valid(text), text, NULL) AS label
FROM (SELECT value ->> 'custom_id' AS custom_id, value ->> '$.response.body.choices[0].message.content' AS text
      FROM json_each('[' || replace(trim(CAST(readfile('answers.jsonl') AS TEXT), char(10)), char(10), ',') || ']'));

CREATE TEMP TABLE accuracy AS
SELECT 100.0 * sum((label ->> 'sentiment') IS sentiment) / count(*) AS sentiment,
       100.0 * sum((label ->> 'topic') IS topic) / count(*) AS topic,
       100.0 * sum((label ->> 'sentiment') IS sentiment AND (label ->> 'topic') IS topic) / count(*) AS both
FROM labels LEFT JOIN answers USING (custom_id);

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
UNION ALL SELECT 'prompt tokens not computed again', format('%,d (%.1f %%)', tokens_saved,
                                                            100.0 * tokens_saved / prefix_tokens) FROM work
UNION ALL SELECT 'accuracy: sentiment', format('%.1f %%', sentiment) FROM accuracy
UNION ALL SELECT 'accuracy: topic', format('%.1f %%', topic) FROM accuracy
UNION ALL SELECT 'accuracy: both right', format('%.1f %%', both) FROM accuracy;
