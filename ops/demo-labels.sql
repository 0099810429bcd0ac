-- The answers of the demo over Kafka compared with the labels known for them. Run where answers.jsonl and
-- labels.jsonl are: a line of each is a JSON object, so the file with commas for line feeds is a JSON array.

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

.mode box --wrap 0
SELECT 'valid answers' AS figure, format('%,d of %,d', sum(label IS NOT NULL), count(*)) AS value FROM answers
UNION ALL SELECT 'accuracy: sentiment', format('%.1f %%', sentiment) FROM accuracy
UNION ALL SELECT 'accuracy: topic', format('%.1f %%', topic) FROM accuracy
UNION ALL SELECT 'accuracy: both right', format('%.1f %%', both) FROM accuracy;
