#include "store/equal_requests.h"

#include "store/database.h"
#include "store/dataset_name.h"

static struct text bytes_of(const struct digest *digest)
{
    return (struct text){(const char *)digest, sizeof *digest};
}

// The indexes jobs_computed and jobs_open have few rows per request. A dataset from a topic is stored as
// NAME, or as NAME@TOPIC if NAME was in use (store/dataset_name.h). The statement looks for both names, so
// the name need not be looked up first.
#define RECORDS                                                                                                \
    "SELECT whole_record(record, frame, job_id, custom_id) FROM jobs JOIN stored_results r ON r.job = jobs.id" \
    " WHERE "
#define COMPUTED " AND is_duplicate = 0 AND status = 'done'"
#define IN_DATASET                                                                                           \
    "(topic IS NULL AND ?3 = '' AND dataset = ?2 OR topic = ?3 AND dataset IN (?2, ?2 || '@' || ?3))"
#define NEWEST " ORDER BY " IN_DATASET " DESC, jobs.id DESC LIMIT ?4"

static sqlite3_stmt *find_statement(struct store *store, const struct job *job,
                                    const struct equal_search *search, struct error *error)
{
    static const char *const queries[] = {[EQUAL_IN_DATASET] =
                                              RECORDS "request_hash = ?1 AND " IN_DATASET COMPUTED NEWEST,
                                          [EQUAL_ANYWHERE] = RECORDS "request_hash = ?1" COMPUTED NEWEST,
                                          [EQUAL_BUT_SHORTER] = RECORDS "open_hash = ?1" COMPUTED
                                                                        " AND max_tokens <= ?5" NEWEST};
    sqlite3_stmt *select = database_statement(&store->database, queries[search->kind], error);
    if (!select)
        return NULL;
    bind_blob(select, 1, bytes_of(search->kind == EQUAL_BUT_SHORTER ? &job->open_hash : &job->request_hash));
    bind_text(select, 2, job->dataset);
    bind_text(select, 3, job->source.topic.size ? job->source.topic : TEXT(""));
    bind_integer(select, 4, EQUAL_REQUESTS_MAX);
    if (search->kind == EQUAL_BUT_SHORTER)
        bind_integer(select, 5, search->max_tokens);
    return select;
}

enum status store_find_equal(struct store *store, const struct job *job, const struct equal_search *search,
                             bool (*take)(void *context, struct text record), void *context,
                             struct error *error)
{
    if (!digest_is_set(search->kind == EQUAL_BUT_SHORTER ? &job->open_hash : &job->request_hash))
        return STATUS_OK;
    int code;
    sqlite3_stmt *select = find_statement(store, job, search, error);
    if (!select)
        return error->status;
    while ((code = sqlite3_step(select)) == SQLITE_ROW && !take(context, column_blob(select, 0)))
        ;
    bool failed = code != SQLITE_ROW && code != SQLITE_DONE;
    enum status status =
        failed ? database_error(&store->database, "looking for an equal request", error) : STATUS_OK;
    sqlite3_reset(select);
    return status;
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
                  "INSERT OR REPLACE INTO stored_results (job, record) SELECT id, ? FROM jobs WHERE dataset = ? AND"
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
