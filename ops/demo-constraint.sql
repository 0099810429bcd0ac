-- The demo's answers with their constraint, the dataset reviews, beside those of the same rows without it, the dataset free, and the
-- labels known for them: rows were queued in the table's order. Run where labels.jsonl is: a line of it is a JSON object, so the file
-- with commas for line feeds is a JSON array.

CREATE TEMP TABLE compared AS
SELECT row, dataset, answer ->> 'sentiment' IN ('positive', 'negative', 'neutral', 'mixed')
         AND answer ->> 'topic' IN ('battery', 'delivery', 'price', 'quality', 'screen', 'size', 'sound', 'support') AS is_valid,
       json_object('sentiment', answer ->> 'sentiment', 'topic', answer ->> 'topic') AS label, completion_tokens, forced_tokens
FROM (SELECT row_number() OVER (PARTITION BY dataset ORDER BY job) AS row, dataset, iif(json_valid(text), text, '{}') AS answer,
             completion_tokens, forced_tokens
      FROM (SELECT jobs.id AS job, dataset, CAST(record AS TEXT) ->> '$.choices[0].text' AS text, completion_tokens, forced_tokens
            FROM jobs JOIN results ON results.job = jobs.id));

CREATE TEMP TABLE labels AS
SELECT key + 1 AS row, json_object('sentiment', value ->> 'sentiment', 'topic', value ->> 'topic') AS label
FROM json_each('[' || replace(trim(CAST(readfile('labels.jsonl') AS TEXT), char(10)), char(10), ',') || ']');

CREATE TEMP TABLE changed AS
SELECT a.label = labels.label AS is_right, b.label = labels.label AS was_right
FROM compared a JOIN compared b USING (row) JOIN labels USING (row)
WHERE a.dataset = 'reviews' AND b.dataset = 'free' AND a.label <> b.label;

.mode box --wrap 0
SELECT 'valid answers, constrained' AS figure, format('%,d of %,d', sum(is_valid), count(*)) AS value
          FROM compared WHERE dataset = 'reviews'
UNION ALL SELECT 'valid answers, free', format('%,d of %,d', sum(is_valid), count(*)) FROM compared WHERE dataset = 'free'
UNION ALL SELECT 'labels that the constraint changed', format('%d: %d became right, %d wrong', count(*),
                 sum(is_right AND NOT was_right), sum(was_right AND NOT is_right)) FROM changed
UNION ALL SELECT 'tokens of constrained answers', format('%,d, of them forced %,d', sum(completion_tokens), sum(forced_tokens))
          FROM compared WHERE dataset = 'reviews';
