// Writes a table of a SQLite database. The first columns are copied from another table, with its
// declarations; the others have no type. Rows are kept in a temporary SQLite file until table_insert_complete
// writes them to the database in one transaction and replaces an existing table of that name. So readers see
// the old table or the complete new one. Thread: main.
#pragma once

#include "schemas/base/digest.h"
#include "schemas/value.h"
#include "store/table_declaration.h"

enum { TABLE_INSERT_COLUMNS_MAX = 2000 }; // SQLite's default SQLITE_MAX_COLUMN

struct table_insert;

// Refuses, before anything is computed, to replace a table or view of that name that this writer did not
// create: none of its columns has a name that ends in `marker`. A missing file or table is accepted.
enum status table_insert_check(const char *path, const char *table, const char *marker,
                               struct error *error) WARN_UNUSED;
// Computes a digest of the table's column names and values, in the order of its rows. It is not set if the
// file or the table does not exist.
enum status table_insert_digest(const char *path, const char *table, struct digest *digest,
                                struct error *error) WARN_UNUSED;
// Opens the writer. declarations [n_declared] belong to the first columns; the others have none.
enum status table_insert_open(struct table_insert **insert, const char *path, const char *table,
                              const struct text *columns, size_t n_columns,
                              const struct table_declaration *declarations, size_t n_declared,
                              struct error *error) WARN_UNUSED;
// Adds a row. Arrays and objects are written as JSON, booleans as 0 and 1.
enum status table_insert_add(struct table_insert *insert, const struct value *fields,
                             struct error *error) WARN_UNUSED;
enum status table_insert_complete(struct table_insert *insert, struct error *error) WARN_UNUSED;
// Frees the writer. Without table_insert_complete the database is unchanged, except that a missing one was
// created.
void table_insert_close(struct table_insert *insert);
