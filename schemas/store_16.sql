-- What schema version 16 has beside version 15: the constant parts of records are stored once. A new store has all three files;
-- a store of version 14 or 15 gets what it lacks when it is opened for writing (store/database.c), and its records stay whole.
--
-- `records` and `results` are views from here on, with the columns of the tables that they replace.

-- What the requests, or the results, of a dataset share: system text, schema, the template's text, names of members. The parts are
-- separated by char(31), each of which is a gap (store/frame/frame.h). Never changed; removed with the dataset.
CREATE TABLE frames (
  id            INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: processes remember the parts by their number
  dataset       TEXT NOT NULL,
  is_of_results INTEGER NOT NULL,                  -- 0: of requests
  parts         TEXT NOT NULL
) STRICT;
CREATE INDEX frames_of_datasets ON frames (dataset, is_of_results);

-- Without this SQLite would change the views that read these tables by their old names.
PRAGMA legacy_alter_table = ON;
ALTER TABLE records RENAME TO stored_records;
ALTER TABLE results RENAME TO stored_results;
PRAGMA legacy_alter_table = OFF;

-- The frame of `record`, which then has the texts of the gaps, separated by char(31); in those of results char(30) means the job's
-- job_id, char(29) its custom_id. NULL: the record is whole.
ALTER TABLE stored_records ADD COLUMN frame INTEGER;
ALTER TABLE stored_results ADD COLUMN frame INTEGER;

-- The parts of the frame and the gaps are two JSON arrays of texts, joined by their places.
CREATE VIEW records AS
SELECT s.job, iif(s.frame IS NULL, s.record,
    (SELECT CAST(group_concat(p.value || coalesce(g.value, ''), '') AS BLOB) FROM frames f
       CROSS JOIN json_each('[' || replace(json_quote(f.parts), '\u001f', '","') || ']') p
       LEFT JOIN json_each('[' || replace(json_quote(CAST(s.record AS TEXT)), '\u001f', '","') || ']') g ON g.key = p.key
     WHERE f.id = s.frame)) AS record,
  s.encoding
FROM stored_records s;

CREATE VIEW results AS
SELECT s.job, iif(s.frame IS NULL, s.record,
    (SELECT CAST(group_concat(p.value || coalesce(g.value, ''), '') AS BLOB) FROM frames f CROSS JOIN jobs j
       CROSS JOIN json_each('[' || replace(json_quote(f.parts), '\u001f', '","') || ']') p
       LEFT JOIN json_each('[' || replace(replace(replace(json_quote(CAST(s.record AS TEXT)), '\u001f', '","'),
                                                  '\u001e', j.job_id), '\u001d', j.custom_id) || ']') g ON g.key = p.key
     WHERE f.id = s.frame AND j.id = s.job)) AS record
FROM stored_results s;
