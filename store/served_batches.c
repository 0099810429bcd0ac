// Rows of the batches that `sheaf serve` keeps.
#include "schemas/base/clock.h"
#include "store/database.h"
#include "store/served.h"

#include <assert.h>

#define SELECT_BATCH                                                                                         \
    "SELECT id, owner, input_file, endpoint, completion_window, coalesce(metadata, ''), output_file,"        \
    " error_file, coalesce(failure, ''), n_requests, n_answered, n_refused, coalesce(output_expires_s, 0),"  \
    " created_at_us, expires_at_us, coalesce(in_progress_at_us, 0), coalesce(finalizing_at_us, 0),"          \
    " coalesce(completed_at_us, 0), coalesce(failed_at_us, 0), coalesce(expired_at_us, 0),"                  \
    " coalesce(cancelling_at_us, 0), coalesce(b.cancelled_at_us, 0), d.dataset IS NOT NULL,"                 \
    " coalesce(d.n_submitted, 0), coalesce(d.n_done, 0), coalesce(d.n_failed, 0),"                           \
    " coalesce(d.n_cancelled, 0), coalesce(d.prompt_tokens, 0), coalesce(d.completion_tokens, 0),"           \
    " coalesce(d.cached_tokens, 0), d.cancelled_at_us IS NOT NULL FROM served_batches b LEFT JOIN datasets d ON d.dataset = b.id"
#define IS_OPEN                                                                                              \
    "completed_at_us IS NULL AND failed_at_us IS NULL AND expired_at_us IS NULL AND cancelled_at_us IS NULL"
#define IS_OPEN_OF_B                                                                                         \
    "b.completed_at_us IS NULL AND b.failed_at_us IS NULL AND b.expired_at_us IS NULL"                       \
    " AND b.cancelled_at_us IS NULL"

static void pass_batch(sqlite3_stmt *row, served_batch_receive *receive, void *context)
{
    int64_t n[31];
    for (int i = 9; i < 31; i++)
        n[i] = sqlite3_column_int64(row, i);
    struct served_batch batch = {.id = column_text(row, 0),
                                 .owner = column_text(row, 1),
                                 .input_file = column_text(row, 2),
                                 .endpoint = column_text(row, 3),
                                 .completion_window = column_text(row, 4),
                                 .metadata = column_text(row, 5),
                                 .output_file = column_text(row, 6),
                                 .error_file = column_text(row, 7),
                                 .failure = column_text(row, 8),
                                 .n_requests = n[9],
                                 .n_answered = n[10],
                                 .n_refused = n[11],
                                 .output_expires_s = n[12],
                                 .at_us = {n[13], n[14], n[15], n[16], n[17], n[18], n[19], n[20], n[21]},
                                 .jobs = {n[22] != 0, n[23], n[24], n[25], n[26], n[27], n[28], n[29],
                                          n[30] != 0}};
    receive(context, &batch);
}

static enum status insert_batch(struct store *store, const struct served_batch *batch, struct error *error)
{
    sqlite3_stmt *insert = database_statement(
        &store->database,
        "INSERT INTO served_batches (id, owner, input_file, endpoint, completion_window, metadata,"
        " output_file, error_file, n_requests, created_at_us, expires_at_us, output_expires_s)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        error);
    if (!insert)
        return error->status;
    bind_text(insert, 1, batch->id);
    bind_text(insert, 2, batch->owner);
    bind_text(insert, 3, batch->input_file);
    bind_text(insert, 4, batch->endpoint);
    bind_text(insert, 5, batch->completion_window);
    if (batch->metadata.size)
        bind_text(insert, 6, batch->metadata);
    bind_text(insert, 7, batch->output_file);
    bind_text(insert, 8, batch->error_file);
    BIND_INTEGERS(insert, 9, batch->n_requests, batch->at_us.created, batch->at_us.expires);
    bind_nonzero(insert, 12, batch->output_expires_s);
    return database_run(&store->database, insert, error);
}

enum status store_batch_add(struct store *store, const struct served_batch *batch, bool *found,
                            struct error *error)
{
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    status = store_file_exists(store, batch->input_file, found, error);
    if (status == STATUS_OK && *found)
        status = insert_batch(store, batch, error);
    return database_end(&store->database, status, error);
}

enum status store_batch_find(struct store *store, struct text owner, struct text id,
                             served_batch_receive *receive, void *context, bool *found, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database, SELECT_BATCH " WHERE b.id = ? AND b.owner = ?", error);
    if (!select)
        return error->status;
    bind_text(select, 1, id);
    bind_text(select, 2, owner);
    int code = sqlite3_step(select);
    *found = code == SQLITE_ROW;
    if (*found)
        pass_batch(select, receive, context);
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "looking for a batch", error);
}

static enum status find_cursor(struct store *store, struct text owner, const struct served_page *page,
                               int64_t *number, bool *found, struct error *error)
{
    *found = true;
    *number = page->is_ascending ? 0 : INT64_MAX;
    if (page->after.size == 0)
        return STATUS_OK;
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT number FROM served_batches WHERE id = ? AND owner = ?",
                           error);
    if (!select)
        return error->status;
    bind_text(select, 1, page->after);
    bind_text(select, 2, owner);
    enum status status =
        database_read_integer(&store->database, select, -1, number, "looking for a batch", error);
    *found = *number >= 0;
    return status;
}

enum status store_batches_list(struct store *store, struct text owner, const struct served_page *page,
                               served_batch_receive *receive, void *context, bool *found, bool *has_more,
                               struct error *error)
{
    static const char *const queries[] = {
        SELECT_BATCH " WHERE b.owner = ? AND b.number < ? ORDER BY b.number DESC LIMIT ?",
        SELECT_BATCH " WHERE b.owner = ? AND b.number > ? ORDER BY b.number LIMIT ?"};
    int64_t number;
    *has_more = false;
    enum status status = find_cursor(store, owner, page, &number, found, error);
    if (status != STATUS_OK || !*found)
        return status;
    sqlite3_stmt *select = database_statement(&store->database, queries[page->is_ascending], error);
    if (!select)
        return error->status;
    bind_text(select, 1, owner);
    BIND_INTEGERS(select, 2, number, page->limit + 1);
    int code, n = 0;
    while ((code = sqlite3_step(select)) == SQLITE_ROW && n++ < page->limit)
        pass_batch(select, receive, context);
    *has_more = code == SQLITE_ROW;
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "listing batches", error);
}

enum status store_batches_open(struct store *store, served_batch_receive *receive, void *context,
                               struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database, SELECT_BATCH " WHERE " IS_OPEN_OF_B " ORDER BY b.number", error);
    if (!select)
        return error->status;
    int code;
    while ((code = sqlite3_step(select)) == SQLITE_ROW)
        pass_batch(select, receive, context);
    sqlite3_reset(select);
    return code == SQLITE_DONE ? STATUS_OK : database_error(&store->database, "listing open batches", error);
}

enum status store_dataset_count(struct store *store, struct text dataset, bool *exists, int64_t *n_submitted,
                                int64_t *n_unfinished, struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT n_submitted, n_submitted - n_done - n_failed - n_cancelled FROM datasets WHERE dataset = ?",
        error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    int code = sqlite3_step(select);
    *exists = code == SQLITE_ROW;
    *n_submitted = *exists ? sqlite3_column_int64(select, 0) : 0;
    *n_unfinished = *exists ? sqlite3_column_int64(select, 1) : 0;
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "looking for a dataset", error);
}

enum status store_batch_stamp(struct store *store, struct text id, enum batch_stamp stamp, bool *changed,
                              struct error *error)
{
#define STAMP(column)                                                                                        \
    "UPDATE served_batches SET " column " = ? WHERE id = ? AND " column " IS NULL AND " IS_OPEN
    static const char *const updates[] = {[BATCH_IN_PROGRESS] = STAMP("in_progress_at_us"),
                                          [BATCH_FINALIZING] = STAMP("finalizing_at_us"),
                                          [BATCH_CANCELLING] = STAMP("cancelling_at_us")};
#undef STAMP
    assert(stamp >= BATCH_IN_PROGRESS && stamp <= BATCH_CANCELLING);
    sqlite3_stmt *update = database_statement(&store->database, updates[stamp], error);
    if (!update)
        return error->status;
    bind_integer(update, 1, clock_wall_us());
    bind_text(update, 2, id);
    enum status status = database_run(&store->database, update, error);
    *changed = status == STATUS_OK && sqlite3_changes(store->database.sqlite) > 0;
    return status;
}

static enum status end_row(struct store *store, struct text id, const struct batch_outcome *outcome,
                           bool *changed, struct error *error)
{
#define END(column)                                                                                          \
    "UPDATE served_batches SET " column " = ?, n_answered = ?, n_refused = ?, failure = ? WHERE id = ?"      \
    " AND " IS_OPEN
    static const char *const updates[] = {[BATCH_COMPLETED] = END("completed_at_us"),
                                          [BATCH_FAILED] = END("failed_at_us"),
                                          [BATCH_EXPIRED] = END("expired_at_us"),
                                          [BATCH_CANCELLED] = END("cancelled_at_us")};
#undef END
    assert(outcome->end >= BATCH_COMPLETED && outcome->end <= BATCH_CANCELLED);
    sqlite3_stmt *update = database_statement(&store->database, updates[outcome->end], error);
    if (!update)
        return error->status;
    BIND_INTEGERS(update, 1, clock_wall_us(), outcome->n_answered, outcome->n_refused);
    bind_text(update, 4, text_from_string(outcome->failure));
    bind_text(update, 5, id);
    enum status status = database_run(&store->database, update, error);
    *changed = status == STATUS_OK && sqlite3_changes(store->database.sqlite) > 0;
    return status;
}

enum status store_batch_end(struct store *store, struct text id, const struct batch_outcome *outcome,
                            bool *changed, struct error *error)
{
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    status = end_row(store, id, outcome, changed, error);
    if (status == STATUS_OK && *changed && outcome->output)
        status = store_file_add(store, outcome->output, error);
    if (status == STATUS_OK && *changed && outcome->errors)
        status = store_file_add(store, outcome->errors, error);
    return database_end(&store->database, status, error);
}
