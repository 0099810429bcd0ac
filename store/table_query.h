// The rows of a query over any SQLite database, which is only read. Thread: main.
#pragma once

#include "schemas/value.h"
#include "store/table_declaration.h"

struct table_query;

// The rows of `sql`, or of a whole table in the order of its rows. STATUS_REFUSE: no such file or table, or a
// statement that may write.
enum status table_query_open(struct table_query **query, const char *path, const char *table, const char *sql,
                             struct error *error) WARN_UNUSED;
void table_query_close(struct table_query *query);
size_t table_query_n_columns(const struct table_query *query);
const char *table_query_column(const struct table_query *query, size_t column);
// [n_columns], as long as the query is open. Of `sql` only the types of columns of tables.
const struct table_declaration *table_query_declarations(const struct table_query *query);
// *fields: [n_columns], valid until the next call; NULL: the end.
enum status table_query_next(struct table_query *query, struct value **fields,
                             struct error *error) WARN_UNUSED;
enum status table_query_rewind(struct table_query *query, struct error *error) WARN_UNUSED;
