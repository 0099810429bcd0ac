// Rows of the files that `sheaf serve` keeps, and the models of living workers.
#include "schemas/base/clock.h"
#include "schemas/base/hash.h"
#include "store/database.h"
#include "store/dataset_arithmetic.h"
#include "store/served.h"
#include "store/workers.h"

#include <limits.h>
#include <stdio.h>

#define COLUMNS "id, owner, filename, purpose, n_bytes, created_at_us, coalesce(expires_at_us, 0)"
// Files that still exist for their owners.
#define LIVES "(expires_at_us IS NULL OR expires_at_us > ?1)"
// Inputs of batches that have not ended. The index served_batches_open has the same condition.
#define IN_USE                                                                                               \
    "EXISTS (SELECT 1 FROM served_batches WHERE input_file = served_files.id AND completed_at_us IS NULL"    \
    " AND failed_at_us IS NULL AND expired_at_us IS NULL AND cancelled_at_us IS NULL)"

enum status store_file_add(struct store *store, const struct served_file *file, struct error *error)
{
    sqlite3_stmt *insert =
        database_statement(&store->database,
                           "INSERT INTO served_files (id, owner, filename, purpose, n_bytes, created_at_us,"
                           " expires_at_us) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                           error);
    if (!insert)
        return error->status;
    bind_text(insert, 1, file->id);
    bind_text(insert, 2, file->owner);
    bind_text(insert, 3, file->filename);
    bind_text(insert, 4, file->purpose);
    BIND_INTEGERS(insert, 5, file->n_bytes, file->created_at_us);
    bind_nonzero(insert, 7, file->expires_at_us);
    return database_run(&store->database, insert, error);
}

static void pass_file(sqlite3_stmt *row, served_file_receive *receive, void *context)
{
    struct served_file file = {.id = column_text(row, 0),
                               .owner = column_text(row, 1),
                               .filename = column_text(row, 2),
                               .purpose = column_text(row, 3),
                               .n_bytes = sqlite3_column_int64(row, 4),
                               .created_at_us = sqlite3_column_int64(row, 5),
                               .expires_at_us = sqlite3_column_int64(row, 6)};
    receive(context, &file);
}

enum status store_file_find(struct store *store, struct text owner, struct text id,
                            served_file_receive *receive, void *context, bool *found, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT " COLUMNS " FROM served_files WHERE id = ?2 AND owner = ?3 AND " LIVES,
                           error);
    if (!select)
        return error->status;
    bind_integer(select, 1, clock_wall_us());
    bind_text(select, 2, id);
    bind_text(select, 3, owner);
    int code = sqlite3_step(select);
    *found = code == SQLITE_ROW;
    if (*found)
        pass_file(select, receive, context);
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "looking for a file", error);
}

// The number of the row after which a page begins.
static enum status find_cursor(struct store *store, struct text owner, const struct served_page *page,
                               int64_t *number, bool *found, struct error *error)
{
    *found = true;
    *number = page->is_ascending ? 0 : INT64_MAX;
    if (page->after.size == 0)
        return STATUS_OK;
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT number FROM served_files WHERE id = ? AND owner = ?",
                           error);
    if (!select)
        return error->status;
    bind_text(select, 1, page->after);
    bind_text(select, 2, owner);
    enum status status =
        database_read_integer(&store->database, select, -1, number, "looking for a file", error);
    *found = *number >= 0;
    return status;
}

enum status store_files_list(struct store *store, struct text owner, struct text purpose,
                             const struct served_page *page, served_file_receive *receive, void *context,
                             bool *found, bool *has_more, struct error *error)
{
    static const char *const queries[] = {
        "SELECT " COLUMNS " FROM served_files WHERE owner = ?2 AND number < ?3 AND (?4 = '' OR purpose = ?4)"
        " AND " LIVES " ORDER BY number DESC LIMIT ?5",
        "SELECT " COLUMNS " FROM served_files WHERE owner = ?2 AND number > ?3 AND (?4 = '' OR purpose = ?4)"
        " AND " LIVES " ORDER BY number LIMIT ?5"};
    int64_t number;
    *has_more = false;
    enum status status = find_cursor(store, owner, page, &number, found, error);
    if (status != STATUS_OK || !*found)
        return status;
    sqlite3_stmt *select = database_statement(&store->database, queries[page->is_ascending], error);
    if (!select)
        return error->status;
    bind_integer(select, 1, clock_wall_us());
    bind_text(select, 2, owner);
    bind_integer(select, 3, number);
    bind_text(select, 4, purpose.size ? purpose : TEXT(""));
    bind_integer(select, 5, page->limit + 1);
    int code, n = 0;
    while ((code = sqlite3_step(select)) == SQLITE_ROW && n++ < page->limit)
        pass_file(select, receive, context);
    *has_more = code == SQLITE_ROW;
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "listing files", error);
}

static enum status remove_unused(struct store *store, struct text owner, struct text id,
                                 enum file_removal *removal, struct error *error)
{
    sqlite3_stmt *remove = database_statement(
        &store->database,
        "DELETE FROM served_files WHERE id = ?2 AND owner = ?3 AND " LIVES " AND NOT " IN_USE, error);
    if (!remove)
        return error->status;
    bind_integer(remove, 1, clock_wall_us());
    bind_text(remove, 2, id);
    bind_text(remove, 3, owner);
    enum status status = database_run(&store->database, remove, error);
    if (status == STATUS_OK && sqlite3_changes(store->database.sqlite))
        *removal = FILE_REMOVED;
    return status;
}

static void ignore_file(void *context, const struct served_file *file)
{
    (void)context, (void)file;
}

enum status store_file_remove(struct store *store, struct text owner, struct text id,
                              enum file_removal *removal, struct error *error)
{
    bool found = false;
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    status = store_file_find(store, owner, id, ignore_file, NULL, &found, error);
    *removal = found ? FILE_IN_USE : FILE_UNKNOWN;
    if (status == STATUS_OK && found)
        status = remove_unused(store, owner, id, removal, error);
    return database_end(&store->database, status, error);
}

enum status store_file_exists(struct store *store, struct text id, bool *exists, struct error *error)
{
    int64_t found = 0;
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT 1 FROM served_files WHERE id = ?", error);
    if (!select)
        return error->status;
    bind_text(select, 1, id);
    enum status status =
        database_read_integer(&store->database, select, 0, &found, "looking for a file", error);
    *exists = found;
    return status;
}

enum status store_file_remove_expired(struct store *store, char id[64], bool *found, struct error *error)
{
    sqlite3_stmt *remove =
        database_statement(&store->database,
                           "DELETE FROM served_files WHERE number = (SELECT number FROM served_files"
                           " WHERE expires_at_us <= ? AND NOT " IN_USE " LIMIT 1) RETURNING id",
                           error);
    if (!remove)
        return error->status;
    bind_integer(remove, 1, clock_wall_us());
    int code = sqlite3_step(remove);
    *found = code == SQLITE_ROW;
    if (*found)
        snprintf(id, 64, "%.*s", (int)column_text(remove, 0).size, column_text(remove, 0).data);
    if (code == SQLITE_ROW)
        code = sqlite3_step(remove);
    sqlite3_reset(remove);
    return code == SQLITE_DONE ? STATUS_OK
                               : database_error(&store->database, "removing an expired file", error);
}

// ---- models ----

struct models {
    void (*receive)(void *context, struct text model, int64_t started_at_us);
    void *context;
    int64_t started_at_us;
};

static void pass_model(void *context, struct text name)
{
    const struct models *models = context;
    models->receive(models->context, name, models->started_at_us);
}

enum status store_models(struct store *store,
                         void (*receive)(void *context, struct text model, int64_t started_at_us),
                         void *context, int64_t *n_alive, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT id, model, started_at_us, coalesce(arithmetic, '') FROM workers"
                           " WHERE stopped_at_us IS NULL ORDER BY model, arithmetic, id",
                           error);
    *n_alive = 0;
    enum status status = select ? workers_open_locks(store, error) : error->status;
    int code = SQLITE_DONE;
    char last[JOB_MODEL_BYTES_MAX + 1] = "";
    uint64_t last_hash = 0; // of the arithmetic
    while (status == STATUS_OK && (code = sqlite3_step(select)) == SQLITE_ROW) {
        bool is_alive = false;
        status = worker_is_alive(store, sqlite3_column_int64(select, 0), &is_alive, error);
        struct text model = column_text(select, 1);
        bool is_known = text_equals_string(model, last);
        if (status != STATUS_OK || !is_alive)
            continue;
        ++*n_alive;
        if (!is_known)
            receive(context, model, sqlite3_column_int64(select, 2));
        struct text arithmetic = column_text(select, 3);
        uint64_t hash = hash_bytes(arithmetic.data, arithmetic.size, 0);
        struct models models = {receive, context, sqlite3_column_int64(select, 2)};
        if (!is_known || hash != last_hash)
            arithmetic_modules(arithmetic.data, pass_model, &models);
        last_hash = hash;
        snprintf(last, sizeof last, "%.*s", (int)model.size, model.data);
    }
    if (select)
        sqlite3_reset(select);
    if (status != STATUS_OK || code == SQLITE_DONE)
        return status;
    return database_error(&store->database, "listing workers", error);
}
