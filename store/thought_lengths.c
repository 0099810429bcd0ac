#include "store/thought_lengths.h"

#include "store/database.h"

enum status store_thought_lengths(struct store *store, struct text dataset, struct thought_lengths *lengths,
                                  struct error *error)
{
    struct database *database = &store->database;
    *lengths = (struct thought_lengths){0};
    sqlite3_stmt *select = database_statement(
        database,
        "SELECT coalesce(reasoning_tokens, 0), completion_tokens FROM jobs WHERE topic IS NULL AND"
        " finished_at_us IS NOT NULL AND +dataset = ? AND status = 'done' ORDER BY finished_at_us DESC LIMIT ?",
        error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    bind_integer(select, 2, THOUGHT_LENGTHS_MAX);
    int code;
    while ((code = sqlite3_step(select)) == SQLITE_ROW) {
        lengths->tokens[lengths->n++] = sqlite3_column_int64(select, 0);
        lengths->generated_tokens += sqlite3_column_int64(select, 1);
    }
    sqlite3_reset(select);
    return code == SQLITE_DONE ? STATUS_OK
                               : database_error(database, "reading the lengths of thoughts", error);
}
