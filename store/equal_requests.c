#include "store/equal_requests.h"

#include "store/database.h"
#include "store/dataset_name.h"

static struct text hash_of(const struct job *job)
{
    return (struct text){(const char *)&job->request_hash, sizeof job->request_hash};
}

// The index jobs_computed has one row a computed request; of another arithmetic than today's there may be
// more. A dataset of a topic has its own name, or, where that was another's, one with the topic
// (store/dataset_name.h): one statement looks for both, so the name need not be found first.
enum status store_find_equal(struct store *store, const struct job *job, struct buffer *record,
                             struct error *error)
{
    static const char *const queries[2] = {
        "SELECT record FROM jobs JOIN results ON results.job = jobs.id WHERE request_hash = ?1"
        " AND is_duplicate = 0 AND dataset = ?2 AND status = 'done' ORDER BY jobs.id DESC LIMIT 1",
        "SELECT record FROM jobs JOIN results ON results.job = jobs.id WHERE request_hash = ?1"
        " AND is_duplicate = 0 AND topic = ?3 AND (dataset = ?2 OR dataset = ?2 || '@' || ?3)"
        " AND status = 'done' ORDER BY jobs.id DESC LIMIT 1"};
    struct text topic = job->source.topic;
    buffer_clear(record);
    sqlite3_stmt *select = database_statement(&store->database, queries[topic.size > 0], error);
    if (!select)
        return error->status;
    bind_blob(select, 1, hash_of(job));
    bind_text(select, 2, job->dataset);
    if (topic.size)
        bind_text(select, 3, topic);
    return database_read_blob(&store->database, select, record, "looking for an equal request", error);
}

enum status keep_result(struct store *store, struct dataset_names *names, const struct job *job,
                        struct text record, struct error *error)
{
    struct text dataset;
    enum status status = dataset_name_of(store, names, job->dataset, job->source.topic, &dataset, error);
    sqlite3_stmt *insert =
        status == STATUS_OK
            ? database_statement(
                  &store->database,
                  "INSERT OR REPLACE INTO results (job, record) SELECT id, ? FROM jobs WHERE dataset = ? AND"
                  " job_id = ? AND status = 'done'",
                  error)
            : NULL;
    if (!insert)
        return error->status;
    bind_blob(insert, 1, record);
    bind_text(insert, 2, dataset);
    bind_text(insert, 3, job->job_id);
    return database_run(&store->database, insert, error);
}

enum status store_duplicate_rows(struct store *store, struct text dataset, int64_t n_rows, int64_t n_tokens,
                                 struct error *error)
{
    sqlite3_stmt *update = database_statement(
        &store->database,
        "UPDATE datasets SET n_duplicate_rows = ?, duplicate_row_tokens = ? WHERE dataset = ?", error);
    if (!update)
        return error->status;
    BIND_INTEGERS(update, 1, n_rows, n_tokens);
    bind_text(update, 3, dataset);
    return database_run(&store->database, update, error);
}
