#include "store/outputs.h"

#include "schemas/base/clock.h"
#include "store/database.h"

#include <string.h>

enum status store_output_find(struct store *store, struct text dataset, const char *path,
                              struct written_output *output, struct error *error)
{
    *output = (struct written_output){0};
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT (SELECT digest FROM outputs WHERE dataset = ?1 AND path = ?2)", error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    bind_text(select, 2, text_from_string(path));
    int code = sqlite3_step(select);
    struct text digest = code == SQLITE_ROW ? column_blob(select, 0) : (struct text){0};
    output->is_found = digest.size == sizeof output->digest;
    if (output->is_found)
        memcpy(&output->digest, digest.data, sizeof output->digest);
    sqlite3_reset(select);
    return code == SQLITE_ROW ? STATUS_OK : database_error(&store->database, "looking for an output", error);
}

enum status store_output_written(struct store *store, struct text dataset, const char *path,
                                 const struct digest *digest, struct error *error)
{
    sqlite3_stmt *insert =
        database_statement(&store->database,
                           "INSERT OR REPLACE INTO outputs (dataset, path, digest, written_at_us)"
                           " VALUES (?, ?, ?, ?)",
                           error);
    if (!insert)
        return error->status;
    bind_text(insert, 1, dataset);
    bind_text(insert, 2, text_from_string(path));
    bind_blob(insert, 3, (struct text){(const char *)digest, sizeof *digest});
    bind_integer(insert, 4, clock_wall_us());
    return database_run(&store->database, insert, error);
}

enum status store_removed_lines(struct store *store, struct text dataset, struct dataset_mark *mark,
                                struct error *error)
{
    *mark = (struct dataset_mark){0};
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT n_lines, fingerprint FROM datasets WHERE dataset = ? AND compacted_at_us IS NOT NULL", error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    int code = sqlite3_step(select);
    if (code == SQLITE_ROW)
        *mark = (struct dataset_mark){.n_lines = sqlite3_column_int64(select, 0),
                                      .hash = (uint64_t)sqlite3_column_int64(select, 1)};
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "looking for the dataset", error);
}
