#include "store/table_insert.h"

#include "store/database.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct table_insert {
    struct database database;
    char *table;
    size_t n_columns;
    sqlite3_stmt *row;
    struct buffer json;
    struct buffer definitions; // column definitions of the table
};

static enum status refuse_memory(const char *path, struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "%s: writing", path);
}

// Executes and frees `sql`; NULL: out of memory.
static enum status execute_sql(struct table_insert *insert, char *sql, struct error *error)
{
    enum status status =
        sql ? database_execute(&insert->database, sql, error) : refuse_memory(insert->database.path, error);
    sqlite3_free(sql);
    return status;
}

static enum status open_database(struct table_insert *insert, struct error *error)
{
    if (sqlite3_open_v2(insert->database.path, &insert->database.sqlite,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return database_error(&insert->database, "opening", error);
    sqlite3_busy_timeout(insert->database.sqlite, STORE_BUSY_MS);
    // Fails here, before anything is computed, if the file is not a database.
    return database_execute(&insert->database, "SELECT count(*) FROM sqlite_schema", error);
}

// Opens a database for reading. If the file does not exist, *is_missing becomes true and the database is
// closed.
static enum status open_to_read(struct database *database, bool *is_missing, struct error *error)
{
    *is_missing = false;
    if (sqlite3_open_v2(database->path, &database->sqlite, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
                        NULL) == SQLITE_OK) {
        sqlite3_busy_timeout(database->sqlite, STORE_BUSY_MS);
        return STATUS_OK;
    }
    *is_missing = access(database->path, F_OK) != 0 && errno == ENOENT;
    enum status status = *is_missing ? STATUS_OK : database_error(database, "opening", error);
    sqlite3_close(database->sqlite);
    return status;
}

enum status table_insert_check(const char *path, const char *table, const char *marker, struct error *error)
{
    struct database database = {.path = (char *)path};
    sqlite3_stmt *select = NULL;
    bool is_missing;
    if (open_to_read(&database, &is_missing, error) != STATUS_OK || is_missing)
        return is_missing ? STATUS_OK : error->status;
    enum status status = STATUS_OK;
    bool exists = false, is_ours = false;
    if (sqlite3_prepare_v2(database.sqlite,
                           "SELECT t.type = 'table' AND c.name LIKE '%' || ?2 FROM sqlite_schema t, "
                           "pragma_table_info(t.name) c WHERE t.name = ?1 COLLATE NOCASE AND t.type IN "
                           "('table', 'view')",
                           -1, &select, NULL) != SQLITE_OK) {
        status = database_error(&database, "looking for the table", error);
    } else {
        bind_text(select, 1, text_from_string(table));
        bind_text(select, 2, text_from_string(marker));
        int code;
        while ((code = sqlite3_step(select)) == SQLITE_ROW) {
            exists = true;
            is_ours |= sqlite3_column_int(select, 0) != 0;
        }
        if (code != SQLITE_DONE)
            status = database_error(&database, "looking for the table", error);
    }
    sqlite3_finalize(select);
    sqlite3_close(database.sqlite);
    if (status == STATUS_OK && exists && !is_ours)
        status =
            error_set(error, STATUS_REFUSE, ERROR_USAGE,
                      "%s: \"%s\" exists and has no column %s, so it was not made by this command: it is "
                      "not replaced",
                      path, table, marker);
    return status;
}

// Adds the length and the bytes of `text`, so that no two lists of texts give the same bytes.
static void add_sized(struct buffer *out, char type, struct text text)
{
    uint64_t size = text.size;
    buffer_add(out, &type, 1);
    buffer_add(out, &size, sizeof size);
    buffer_add(out, text.data, text.size);
}

static void add_column(struct buffer *out, sqlite3_stmt *row, int column)
{
    int type = sqlite3_column_type(row, column);
    int64_t integer = type == SQLITE_INTEGER ? sqlite3_column_int64(row, column) : 0;
    double number = type == SQLITE_FLOAT ? sqlite3_column_double(row, column) : 0;
    struct text bytes = type == SQLITE_INTEGER ? (struct text){(const char *)&integer, sizeof integer}
                        : type == SQLITE_FLOAT ? (struct text){(const char *)&number, sizeof number}
                        : type == SQLITE_TEXT  ? column_text(row, column)
                                               : column_blob(row, column);
    add_sized(out, (char)type, bytes);
}

// Continues a chain of digests: each one covers the previous digest and the next rows.
static void add_to_chain(struct digest *digest, struct buffer *bytes)
{
    *digest = digest_of(bytes->data, bytes->size);
    buffer_clear(bytes);
    buffer_add(bytes, digest, sizeof *digest);
}

static enum status digest_rows(struct database *database, sqlite3_stmt *rows, struct digest *digest,
                               struct error *error)
{
    enum { PIECE_BYTES = 65536 };
    struct buffer bytes = {0};
    int code, n_columns = sqlite3_column_count(rows);
    for (int i = 0; i < n_columns; i++)
        add_sized(&bytes, 'n', text_from_string(sqlite3_column_name(rows, i)));
    while ((code = sqlite3_step(rows)) == SQLITE_ROW && !bytes.failed) {
        for (int i = 0; i < n_columns; i++)
            add_column(&bytes, rows, i);
        if (bytes.size >= PIECE_BYTES)
            add_to_chain(digest, &bytes);
    }
    add_to_chain(digest, &bytes);
    enum status status = bytes.failed          ? refuse_memory(database->path, error)
                         : code != SQLITE_DONE ? database_error(database, "reading the table", error)
                                               : STATUS_OK;
    buffer_finish(&bytes);
    return status;
}

enum status table_insert_digest(const char *path, const char *table, struct digest *digest,
                                struct error *error)
{
    struct database database = {.path = (char *)path};
    sqlite3_stmt *rows = NULL;
    bool is_missing;
    *digest = (struct digest){0};
    if (open_to_read(&database, &is_missing, error) != STATUS_OK || is_missing)
        return is_missing ? STATUS_OK : error->status;
    enum status status = STATUS_OK;
    int code =
        sqlite3_table_column_metadata(database.sqlite, "main", table, NULL, NULL, NULL, NULL, NULL, NULL);
    char *sql = code == SQLITE_OK ? sqlite3_mprintf("SELECT * FROM main.\"%w\" NOT INDEXED", table) : NULL;
    if (code == SQLITE_OK && !sql)
        status = refuse_memory(path, error);
    else if (sql && sqlite3_prepare_v2(database.sqlite, sql, -1, &rows, NULL) != SQLITE_OK)
        status = database_error(&database, "reading the table", error);
    else if (sql)
        status = digest_rows(&database, rows, digest, error);
    sqlite3_free(sql);
    sqlite3_finalize(rows);
    sqlite3_close(database.sqlite);
    return status;
}

static void add_name(struct buffer *out, struct text column)
{
    char *name = sqlite3_mprintf("\"%.*w\"", (int)column.size, column.data);
    buffer_add_string(out, name ? name : "");
    out->failed |= !name;
    sqlite3_free(name);
}

// Adds the columns of the primary key, in the order of the key.
static void add_key(struct buffer *out, const struct text *columns,
                    const struct table_declaration *declarations, size_t n)
{
    bool any = false;
    for (int place = 1; place <= (int)n; place++)
        for (size_t i = 0; i < n; i++)
            if (declarations[i].key_place == place) {
                buffer_add_string(out, any ? ", " : ", PRIMARY KEY (");
                add_name(out, columns[i]);
                any = true;
            }
    buffer_add_string(out, any ? ")" : "");
}

static enum status define_columns(struct table_insert *insert, const struct text *columns,
                                  const struct table_declaration *declarations, size_t n_declared,
                                  struct error *error)
{
    struct buffer *out = &insert->definitions;
    for (size_t i = 0; i < insert->n_columns; i++) {
        buffer_add_string(out, i ? ", " : "");
        add_name(out, columns[i]);
        if (i < n_declared && declarations[i].type)
            buffer_add_format(out, " %s", declarations[i].type);
        if (i < n_declared && declarations[i].is_not_null)
            buffer_add_string(out, " NOT NULL");
    }
    add_key(out, columns, declarations, n_declared);
    buffer_add_byte(out, '\0');
    return out->failed ? refuse_memory(insert->database.path, error) : STATUS_OK;
}

// Creates the temporary table of rows, and the statement that inserts a row.
static enum status create_rows(struct table_insert *insert, const struct text *columns, struct error *error)
{
    struct buffer names = {0}, row = {0};
    buffer_add_string(&row, "INSERT INTO temp.sheaf_rows VALUES (");
    for (size_t i = 0; i < insert->n_columns; i++) {
        buffer_add_string(&names, i ? ", " : "");
        add_name(&names, columns[i]);
        buffer_add_string(&row, i ? ", ?" : "?");
    }
    buffer_add_string(&row, ")");
    enum status status =
        names.failed || row.failed
            ? refuse_memory(insert->database.path, error)
            : execute_sql(insert, sqlite3_mprintf("CREATE TEMP TABLE sheaf_rows (%s)", names.data), error);
    if (status == STATUS_OK)
        status = execute_sql(insert, sqlite3_mprintf("BEGIN"), error);
    if (status == STATUS_OK &&
        sqlite3_prepare_v2(insert->database.sqlite, row.data, -1, &insert->row, NULL) != SQLITE_OK)
        status = database_error(&insert->database, "preparing a row", error);
    buffer_finish(&names);
    buffer_finish(&row);
    return status;
}

enum status table_insert_open(struct table_insert **insert, const char *path, const char *table,
                              const struct text *columns, size_t n_columns,
                              const struct table_declaration *declarations, size_t n_declared,
                              struct error *error)
{
    struct table_insert *opened = calloc(1, sizeof *opened);
    if (!opened)
        return refuse_memory(path, error);
    opened->database.path = strdup(path);
    opened->table = strdup(table);
    opened->n_columns = n_columns;
    enum status status =
        opened->database.path && opened->table ? open_database(opened, error) : refuse_memory(path, error);
    if (status == STATUS_OK)
        status = create_rows(opened, columns, error);
    if (status == STATUS_OK)
        status = define_columns(opened, columns, declarations, n_declared, error);
    if (status == STATUS_OK)
        *insert = opened;
    else
        table_insert_close(opened);
    return status;
}

// Binds a value and returns SQLite's code. Binding may run out of memory, because SQLite converts texts for a
// UTF-16 database, and copies JSON.
static int bind_value(struct table_insert *insert, int index, const struct value *value)
{
    switch (value->kind) {
    case VALUE_NULL:
        return SQLITE_OK;
    case VALUE_BOOL: // SQLite has no booleans: TRUE is 1
        return sqlite3_bind_int64(insert->row, index, value->boolean);
    case VALUE_INTEGER:
        return sqlite3_bind_int64(insert->row, index, value->integer);
    case VALUE_FLOAT:
        if (value_is_long_integer(value)) // REAL would round it
            return sqlite3_bind_text64(insert->row, index, value->digits, strlen(value->digits),
                                       SQLITE_STATIC, SQLITE_UTF8);
        return sqlite3_bind_double(insert->row, index, value->number);
    case VALUE_STRING:
        return sqlite3_bind_text64(insert->row, index, value->text.data, value->text.size, SQLITE_STATIC,
                                   SQLITE_UTF8);
    case VALUE_BYTES:
        return sqlite3_bind_blob64(insert->row, index, value->text.data ? value->text.data : "",
                                   value->text.size, SQLITE_STATIC);
    default:
        buffer_clear(&insert->json);
        json_encode(value, &insert->json);
        if (insert->json.failed)
            return SQLITE_NOMEM;
        return sqlite3_bind_text64(insert->row, index, insert->json.data, insert->json.size, SQLITE_TRANSIENT,
                                   SQLITE_UTF8);
    }
}

enum status table_insert_add(struct table_insert *insert, const struct value *fields, struct error *error)
{
    sqlite3_reset(insert->row);
    sqlite3_clear_bindings(insert->row);
    for (size_t i = 0; i < insert->n_columns; i++) {
        int code = bind_value(insert, (int)i + 1, &fields[i]);
        if (code == SQLITE_NOMEM)
            return refuse_memory(insert->database.path, error);
        if (code != SQLITE_OK)
            return database_error(&insert->database, "writing", error);
    }
    return database_run(&insert->database, insert->row, error);
}

enum status table_insert_complete(struct table_insert *insert, struct error *error)
{
    enum status status = database_execute(&insert->database, "COMMIT", error);
    if (status == STATUS_OK)
        status = database_begin(&insert->database, error);
    if (status != STATUS_OK)
        return status;
    status = execute_sql(insert, sqlite3_mprintf("DROP TABLE IF EXISTS main.\"%w\"", insert->table), error);
    if (status == STATUS_OK)
        status = execute_sql(
            insert, sqlite3_mprintf("CREATE TABLE main.\"%w\" (%s)", insert->table, insert->definitions.data),
            error);
    if (status == STATUS_OK)
        status = execute_sql(
            insert,
            sqlite3_mprintf("INSERT INTO main.\"%w\" SELECT * FROM temp.sheaf_rows ORDER BY rowid",
                            insert->table),
            error);
    return database_end(&insert->database, status, error);
}

void table_insert_close(struct table_insert *insert)
{
    if (!insert)
        return;
    sqlite3_finalize(insert->row);
    database_close(&insert->database);
    buffer_finish(&insert->json);
    buffer_finish(&insert->definitions);
    free(insert->table);
    free(insert);
}
