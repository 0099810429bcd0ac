-- What schema version 15 has beside version 14 (schemas/store.sql): the files and batches of `sheaf serve`. A new store has both
-- files; a store of version 14 gets this one when it is opened for writing (store/database.c).
--
-- The contents of files are in the folder PATH-files beside the store, a file named by its id. A batch is a dataset of the same
-- name, whose jobs and totals are in `jobs` and `datasets`.

CREATE TABLE served_files (
  number        INTEGER PRIMARY KEY,               -- order of creation
  id            TEXT NOT NULL UNIQUE,
  owner         TEXT NOT NULL,                     -- hash of the token of its owner; empty: the server has no tokens
  filename      TEXT NOT NULL,
  purpose       TEXT NOT NULL,
  n_bytes       INTEGER NOT NULL,
  created_at_us INTEGER NOT NULL,
  expires_at_us INTEGER                            -- NULL: never
) STRICT;

-- A batch ends at one of completed_at_us, failed_at_us, expired_at_us and cancelled_at_us.
CREATE TABLE served_batches (
  number             INTEGER PRIMARY KEY,          -- order of creation
  id                 TEXT NOT NULL UNIQUE,         -- also the dataset's name
  owner              TEXT NOT NULL,
  input_file         TEXT NOT NULL,                -- served_files.id
  endpoint           TEXT NOT NULL,
  completion_window  TEXT NOT NULL,
  metadata           TEXT,                         -- a JSON object; NULL: none
  n_requests         INTEGER NOT NULL,             -- lines of the input that are not blank
  output_file        TEXT NOT NULL,                -- ids, chosen with the batch's own; the files exist if n_answered and n_refused say so
  error_file         TEXT NOT NULL,
  output_expires_s   INTEGER,                      -- after the output was written; NULL: never
  n_answered         INTEGER NOT NULL DEFAULT 0,   -- lines of the output file
  n_refused          INTEGER NOT NULL DEFAULT 0,   -- lines of the error file
  failure            TEXT,                         -- why the batch failed
  created_at_us      INTEGER NOT NULL,
  expires_at_us      INTEGER NOT NULL,
  in_progress_at_us  INTEGER,                      -- all jobs are in the queue
  finalizing_at_us   INTEGER,
  completed_at_us    INTEGER,
  failed_at_us       INTEGER,
  expired_at_us      INTEGER,
  cancelling_at_us   INTEGER,
  cancelled_at_us    INTEGER
) STRICT;
CREATE INDEX served_batches_open ON served_batches (input_file)
  WHERE completed_at_us IS NULL AND failed_at_us IS NULL AND expired_at_us IS NULL AND cancelled_at_us IS NULL;
