-- What schema version 17 has beside version 16: the embedded queue knows each job's dataset, so that a claim takes turns over datasets
-- without a scan of their jobs. A new store has all four files; an older store gets what it lacks when it is opened for writing
-- (store/database.c).

-- The dataset's number in `queue`; NULL: no job was ever submitted to the embedded queue. Kept when the dataset is renamed.
ALTER TABLE datasets ADD COLUMN number INTEGER;
CREATE UNIQUE INDEX datasets_of_numbers ON datasets (number) WHERE number IS NOT NULL;
UPDATE datasets SET number = rowid WHERE submitted_at_us IS NOT NULL;

ALTER TABLE queue ADD COLUMN dataset_number INTEGER NOT NULL DEFAULT 0; -- datasets.number
UPDATE queue SET dataset_number = coalesce((SELECT d.number FROM jobs j CROSS JOIN datasets d ON d.dataset = j.dataset WHERE j.id = queue.job), 0);

-- The jobs of one dataset and one urgency are neighbours, in order of submission: SQLite orders equal entries by the primary key.
DROP INDEX queue_urgent;
CREATE INDEX queue_urgent ON queue (priority DESC, deadline_us, dataset_number) WHERE worker IS NULL;
DROP INDEX queue_claimed;
CREATE INDEX queue_claimed ON queue (worker, dataset_number) WHERE worker IS NOT NULL;

-- A process of an older version that opened the store before its change goes on queuing jobs, without numbers.
CREATE TRIGGER queue_of_older_programs AFTER INSERT ON queue WHEN NEW.dataset_number = 0 BEGIN
  UPDATE datasets SET number = (SELECT coalesce(max(number), 0) + 1 FROM datasets WHERE number IS NOT NULL)
    WHERE dataset = (SELECT dataset FROM jobs WHERE id = NEW.job) AND number IS NULL;
  UPDATE queue SET dataset_number = (SELECT d.number FROM jobs j CROSS JOIN datasets d ON d.dataset = j.dataset WHERE j.id = NEW.job)
    WHERE job = NEW.job;
END;
