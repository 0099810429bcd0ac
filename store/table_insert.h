// Writes a table of a SQLite database: columns as a table declares them that they are copied from, and others
// without types. Rows are kept in SQLite's temporary file
// until table_insert_complete writes them to the database in one transaction, replacing a table of that name:
// readers see the old table or the complete new one. Thread: main.
#pragma once

#include "schemas/value.h"
#include "store/table_declaration.h"

enum { TABLE_INSERT_COLUMNS_MAX = 2000 }; // SQLITE_MAX_COLUMN, unless SQLite is built with another

struct table_insert;

// Refuses a table or view of that name that this writer did not create (no column's name ends in `marker`),
// before anything is computed. A missing file or table is accepted.
enum status table_insert_check(const char *path, const char *table, const char *marker,
                               struct error *error) WARN_UNUSED;
// declarations: [n_declared] of the first columns; the others have none.
enum status table_insert_open(struct table_insert **insert, const char *path, const char *table,
                              const struct text *columns, size_t n_columns,
                              const struct table_declaration *declarations, size_t n_declared,
                              struct error *error) WARN_UNUSED;
// Arrays, objects and booleans are written as JSON.
enum status table_insert_add(struct table_insert *insert, const struct value *fields,
                             struct error *error) WARN_UNUSED;
enum status table_insert_complete(struct table_insert *insert, struct error *error) WARN_UNUSED;
// Without table_insert_complete the database is as it was; it is made where it was missing.
void table_insert_close(struct table_insert *insert);
