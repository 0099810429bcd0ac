// Reads the rows of a query from any SQLite database, without writing to it. Thread: main.
#pragma once

#include "schemas/value.h"
#include "store/table_declaration.h"

struct table_query;

// Opens the rows of `sql`, or of a whole table in the order of its rows. STATUS_REFUSE: no such file or
// table, or the statement may write.
enum status table_query_open(struct table_query **query, const char *path, const char *table, const char *sql,
                             struct error *error) WARN_UNUSED;
void table_query_close(struct table_query *query);
size_t table_query_n_columns(const struct table_query *query);
const char *table_query_column(const struct table_query *query, size_t column);
// [n_columns] valid while the query is open. For `sql` they have only types, and only if the column is from a
// table.
const struct table_declaration *table_query_declarations(const struct table_query *query);
// Reads the next row. *fields [n_columns] is valid until the next call; it becomes NULL at the end.
enum status table_query_next(struct table_query *query, struct value **fields,
                             struct error *error) WARN_UNUSED;
enum status table_query_rewind(struct table_query *query, struct error *error) WARN_UNUSED;
