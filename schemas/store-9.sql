-- Schema version 9: the labels of annotated tables.

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
