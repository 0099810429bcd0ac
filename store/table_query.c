#include "store/table_query.h"

#include "schemas/base/arena.h"
#include "store/database.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct table_query {
    struct database database;
    sqlite3_stmt *select;
    struct value *fields;                   // [n]
    struct table_declaration *declarations; // [n]
    struct arena arena;                     // holds the texts of the declarations
    size_t n;
};

static enum status open_database(struct table_query *query, struct error *error)
{
    if (sqlite3_open_v2(query->database.path, &query->database.sqlite,
                        SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return database_error(&query->database, "opening", error);
    sqlite3_busy_timeout(query->database.sqlite, STORE_BUSY_MS);
    return STATUS_OK;
}

static enum status prepare_query(struct table_query *query, const char *sql, struct error *error)
{
    const char *rest = NULL;
    if (sqlite3_prepare_v2(query->database.sqlite, sql, -1, &query->select, &rest) != SQLITE_OK) {
        database_error(&query->database, "preparing the query", error);
        return error->status = STATUS_REFUSE;
    }
    while (rest && *rest && strchr(" \t\r\n;", *rest))
        rest++;
    query->n = query->select ? (size_t)sqlite3_column_count(query->select) : 0;
    if (query->n && sqlite3_stmt_readonly(query->select) && (!rest || !*rest))
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "%s: expected one statement that selects rows, got \"%s\"", query->database.path, sql);
}

// Prepares SELECT * from the table, quoting its name.
static enum status prepare_table(struct table_query *query, const char *table, struct error *error)
{
    char *sql = sqlite3_mprintf("SELECT * FROM \"%w\"", table);
    enum status status = sql ? prepare_query(query, sql, error)
                             : error_memory(error, STATUS_REFUSE, "%s", query->database.path);
    sqlite3_free(sql);
    return status;
}

// ---- declarations ----

static bool has_keyword(const char *type)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    for (size_t n; *type; type += n + (type[n] != '\0')) {
        n = strspn(type, letters);
        if (n && sqlite3_keyword_check(type, (int)n))
            return true;
    }
    return false;
}

// True if a copied table can declare the type: words, optionally followed by numbers in parentheses, as in
// VARCHAR(10). Keywords would need quotes. ANY means no conversion in a STRICT table, but would mean a
// numeric type in others.
static bool is_plain_type(const char *type)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    size_t n = strspn(type, letters);
    if (!n || strcasecmp(type, "ANY") == 0 || has_keyword(type))
        return false;
    n += strspn(type + n, " 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_");
    if (type[n] == '(') {
        n += 1 + strspn(type + n + 1, "0123456789+-., ");
        if (type[n++] != ')')
            return false;
    }
    return type[n] == '\0';
}

static bool set_type(struct table_query *query, size_t column, const char *type)
{
    if (!type || !is_plain_type(type))
        return true;
    query->declarations[column].type = arena_copy(&query->arena, type, strlen(type));
    return query->declarations[column].type != NULL;
}

static bool take_declaration(struct table_query *query, sqlite3_stmt *select)
{
    const char *name = (const char *)sqlite3_column_text(select, 0);
    for (size_t i = 0; name && i < query->n; i++)
        if (strcmp(table_query_column(query, i), name) == 0) {
            query->declarations[i].is_not_null = sqlite3_column_int(select, 2) != 0;
            query->declarations[i].key_place = sqlite3_column_int(select, 3);
            return set_type(query, i, (const char *)sqlite3_column_text(select, 1));
        }
    return true;
}

static enum status refuse_memory(const struct table_query *query, struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "%s", query->database.path);
}

// True if a statement may be compound (UNION and the like). The columns of a compound statement have the
// types of its first part; the affinity of these types would convert the values of the other parts.
#define COMPOUND(sql) "(" sql " LIKE '%union%' OR " sql " LIKE '%intersect%' OR " sql " LIKE '%except%')"

// Reads a table's declarations; none for a view if any view may be compound.
static enum status read_declarations(struct table_query *query, const char *table, struct error *error)
{
    sqlite3_stmt *select = NULL;
    if (sqlite3_prepare_v2(
            query->database.sqlite,
            "SELECT name, type, \"notnull\", pk FROM pragma_table_xinfo(?1) WHERE hidden <> 1"
            " AND NOT EXISTS (SELECT 1 FROM sqlite_master AS named, sqlite_master AS view WHERE named.type = 'view'"
            " AND named.name = ?1 COLLATE NOCASE AND view.type = 'view' AND " COMPOUND("view.sql") ")",
            -1, &select, NULL) != SQLITE_OK)
        return database_error(&query->database, "reading the columns", error);
    bind_text(select, 1, text_from_string(table));
    bool complete = true;
    int code;
    while ((code = sqlite3_step(select)) == SQLITE_ROW && complete)
        complete = take_declaration(query, select);
    enum status status = !complete ? refuse_memory(query, error)
                         : code == SQLITE_DONE
                             ? STATUS_OK
                             : database_error(&query->database, "reading the columns", error);
    sqlite3_finalize(select);
    return status;
}

// Finds out whether the statement, or a view that it may read, may be compound.
static enum status find_compound(struct table_query *query, const char *sql, bool *is_compound,
                                 struct error *error)
{
    sqlite3_stmt *select = NULL;
    if (sqlite3_prepare_v2(
            query->database.sqlite,
            "SELECT EXISTS (SELECT 1 FROM (SELECT ?1 AS sql UNION ALL SELECT sql FROM sqlite_master WHERE type = 'view')"
            " WHERE " COMPOUND("sql") ")",
            -1, &select, NULL) != SQLITE_OK)
        return database_error(&query->database, "reading the views", error);
    bind_text(select, 1, text_from_string(sql));
    int code = sqlite3_step(select);
    *is_compound = code == SQLITE_ROW && sqlite3_column_int(select, 0) != 0;
    enum status status =
        code == SQLITE_ROW ? STATUS_OK : database_error(&query->database, "reading the views", error);
    sqlite3_finalize(select);
    return status;
}

static enum status find_declarations(struct table_query *query, const char *table, const char *sql,
                                     struct error *error)
{
    query->declarations = calloc(query->n, sizeof *query->declarations);
    if (!query->declarations)
        return refuse_memory(query, error);
    if (table)
        return read_declarations(query, table, error);
    bool is_compound = false, complete = true;
    enum status status = find_compound(query, sql, &is_compound, error);
    if (status != STATUS_OK || is_compound)
        return status;
    for (size_t i = 0; complete && i < query->n; i++)
        complete = set_type(query, i, sqlite3_column_decltype(query->select, (int)i));
    return complete ? STATUS_OK : refuse_memory(query, error);
}

const struct table_declaration *table_query_declarations(const struct table_query *query)
{
    return query->declarations;
}

enum status table_query_open(struct table_query **query, const char *path, const char *table, const char *sql,
                             struct error *error)
{
    struct table_query *opened = calloc(1, sizeof *opened);
    if (opened)
        opened->database.path = strdup(path);
    enum status status = opened && opened->database.path ? open_database(opened, error)
                                                         : error_memory(error, STATUS_REFUSE, "%s", path);
    if (status == STATUS_OK)
        status = sql ? prepare_query(opened, sql, error) : prepare_table(opened, table, error);
    if (status == STATUS_OK && !(opened->fields = calloc(opened->n, sizeof *opened->fields)))
        status = error_memory(error, STATUS_REFUSE, "%s", path);
    if (status == STATUS_OK)
        status = find_declarations(opened, sql ? NULL : table, sql, error);
    if (status == STATUS_OK)
        *query = opened;
    else
        table_query_close(opened);
    return status;
}

void table_query_close(struct table_query *query)
{
    if (!query)
        return;
    sqlite3_finalize(query->select);
    database_close(&query->database);
    free(query->fields);
    free(query->declarations);
    arena_finish(&query->arena);
    free(query);
}

size_t table_query_n_columns(const struct table_query *query)
{
    return query->n;
}

const char *table_query_column(const struct table_query *query, size_t column)
{
    return sqlite3_column_name(query->select, (int)column);
}

static struct value value_of(sqlite3_stmt *select, int column)
{
    switch (sqlite3_column_type(select, column)) {
    case SQLITE_INTEGER:
        return value_integer(sqlite3_column_int64(select, column));
    case SQLITE_FLOAT:
        return value_float(sqlite3_column_double(select, column));
    case SQLITE_TEXT:
        return value_string(column_text(select, column));
    case SQLITE_BLOB:
        return (struct value){.kind = VALUE_BYTES, .text = column_blob(select, column)};
    default:
        return (struct value){.kind = VALUE_NULL};
    }
}

enum status table_query_next(struct table_query *query, struct value **fields, struct error *error)
{
    *fields = NULL;
    int code = sqlite3_step(query->select);
    if (code == SQLITE_DONE)
        return STATUS_OK;
    if (code != SQLITE_ROW)
        return database_error(&query->database, "reading rows", error);
    for (size_t i = 0; i < query->n; i++)
        query->fields[i] = value_of(query->select, (int)i);
    // If memory runs out, SQLite returns NULL for a long or UTF-16 text.
    if (sqlite3_errcode(query->database.sqlite) == SQLITE_NOMEM)
        return database_error(&query->database, "reading rows", error);
    *fields = query->fields;
    return STATUS_OK;
}

enum status table_query_rewind(struct table_query *query, struct error *error)
{
    int code = sqlite3_reset(query->select);
    return code == SQLITE_OK ? STATUS_OK : database_error(&query->database, "reading rows again", error);
}
