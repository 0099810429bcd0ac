#include "store/database.h"

#include "schemas/base/clock.h"
#include "store/store_sql.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BUSY_SLEEP_NS = 2 * 1000 * 1000 };

// SQLite reports a failed mmap() of its index as an I/O error. Unlike a fault of the disk, it lasts as long
// as the process.
static bool is_out_of_memory(int code)
{
    return code == SQLITE_NOMEM || code == SQLITE_IOERR_NOMEM || code == SQLITE_IOERR_SHMMAP ||
           code == SQLITE_IOERR_MMAP;
}

enum status database_error(const struct database *database, const char *doing, struct error *error)
{
    int code = sqlite3_extended_errcode(database->sqlite), cause;
    const char *path = database->path;
    if (is_out_of_memory(code))
        return error_memory(error, STATUS_RESTART, "%s: %s", path, doing);
    switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return error_set(error, STATUS_RETRY, ERROR_STORE, "%s: %s: another process holds the store", path,
                         doing);
    case SQLITE_FULL:
        return error_set(error, STATUS_RETRY, ERROR_STORE, "%s: %s: the disk is full", path, doing);
    case SQLITE_IOERR:
        cause = sqlite3_system_errno(database->sqlite); // 0: the cause is unknown
        return error_set(error, STATUS_RETRY, ERROR_STORE, "%s: %s: %s%s%s%s", path, doing,
                         sqlite3_errmsg(database->sqlite), cause ? " (" : "", cause ? strerror(cause) : "",
                         cause ? ")" : "");
    case SQLITE_NOTADB:
        return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: not an SQLite file", path);
    default:
        return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: %s: %s", path, doing,
                         sqlite3_errmsg(database->sqlite));
    }
}

enum status database_execute(struct database *database, const char *sql, struct error *error)
{
    if (sqlite3_exec(database->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK)
        return STATUS_OK;
    char doing[48];
    size_t length = strcspn(sql, ";\n(");
    length = length < sizeof doing - 1 ? length : sizeof doing - 1;
    memcpy(doing, sql, length);
    doing[length] = '\0';
    return database_error(database, doing, error);
}

static void roll_back(struct database *database)
{
    if (sqlite3_get_autocommit(database->sqlite))
        return;
    if (database->rollback) {
        (void)sqlite3_step(database->rollback);
        sqlite3_reset(database->rollback);
    }
    if (!sqlite3_get_autocommit(database->sqlite))
        sqlite3_exec(database->sqlite, "ROLLBACK", NULL, NULL, NULL);
}

enum status database_begin(struct database *database, struct error *error)
{
    database->n_begun++;
    return database_execute(database, "BEGIN IMMEDIATE", error);
}

enum status database_end(struct database *database, enum status status, struct error *error)
{
    if (status == STATUS_OK)
        status = database_execute(database, "COMMIT", error);
    if (status != STATUS_OK)
        roll_back(database);
    return status;
}

// ---- opening ----

static enum status read_version(struct database *database, int *version, struct error *error)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(database->sqlite, "PRAGMA user_version", -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        sqlite3_finalize(statement);
        return database_error(database, "reading the version", error);
    }
    *version = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return STATUS_OK;
}

static enum status refuse_version(const struct database *database, int version, struct error *error)
{
    return error_set(
        error, STATUS_REFUSE, ERROR_STORE,
        version > STORE_VERSION
            ? "%s: expected a store of version %d, got %d, of a newer sheaf"
            : "%s: expected a store of version %d, got %d, from before sheaf 0.1.0: finish it with the"
              " program that created it, or name another file",
        database->path, STORE_VERSION, version);
}

// True for versions that are opened: a store of an older one gets what it lacks.
static bool is_known(int version)
{
    return version >= STORE_VERSION_RELEASED && version <= STORE_VERSION;
}

// What a reader of an older store sees instead of the tables of version 16.
static const char views_of_15[] =
    "CREATE TEMP VIEW stored_records AS SELECT job, record, encoding, NULL AS frame FROM records;"
    "CREATE TEMP VIEW stored_results AS SELECT job, record, NULL AS frame FROM results;";

static enum status is_empty(struct database *database, bool *empty, struct error *error)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(database->sqlite, "SELECT count(*) FROM sqlite_schema", -1, &statement, NULL) !=
            SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        sqlite3_finalize(statement);
        return database_error(database, "reading the schema", error);
    }
    *empty = sqlite3_column_int(statement, 0) == 0;
    sqlite3_finalize(statement);
    return STATUS_OK;
}

// Creates the schema in an empty file, or adds what an older version lacks, in one transaction; a second
// process that does it at the same time finds nothing left to do. A file of another version is refused.
static enum status create_schema(struct database *database, struct error *error)
{
    enum status status = database_begin(database, error);
    if (status != STATUS_OK)
        return status;
    int version = 0;
    bool empty = false;
    char pragma[48];
    status = read_version(database, &version, error);
    if (status == STATUS_OK)
        status = is_empty(database, &empty, error);
    if (status == STATUS_OK && version == 0 && !empty)
        status = error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: a SQLite file, but not a sheaf store",
                           database->path);
    if (status == STATUS_OK && !is_known(version) && !empty)
        status = refuse_version(database, version, error);
    if (status == STATUS_OK && empty)
        status = database_execute(database, store_sql, error);
    if (status == STATUS_OK && (empty || version < 15))
        status = database_execute(database, store_15_sql, error);
    if (status == STATUS_OK && (empty || version < 16))
        status = database_execute(database, store_16_sql, error);
    if (status == STATUS_OK && (empty || version < 17))
        status = database_execute(database, store_17_sql, error);
    snprintf(pragma, sizeof pragma, "PRAGMA user_version = %d", STORE_VERSION);
    if (status == STATUS_OK && version != STORE_VERSION)
        status = database_execute(database, pragma, error);
    return database_end(database, status, error);
}

// The store contains prompts: only its owner may read it. SQLite would create the file with the umask. An
// existing file is not opened here: closing a descriptor of it would release the locks that SQLite holds for
// another open store of this process (https://sqlite.org/howtocorrupt.html, 2.2), and a process that closes
// its own store would then delete the log.
static enum status create_file(const char *path, enum store_mode mode, struct error *error)
{
    bool creates = mode == STORE_CREATE || mode == STORE_CREATE_SOON;
    struct stat about;
    bool is_found = stat(path, &about) == 0;
    int fd = creates && !is_found && errno == ENOENT ? open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) {
        close(fd);
        return STATUS_OK;
    }
    if (is_found && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))
        return error_set(error, STATUS_REFUSE, ERROR_STORE,
                         "%s: opening the store: expected a file, got a device or a pipe", path);
    if (is_found && S_ISDIR(about.st_mode))
        errno = EISDIR;
    else if (is_found &&
             faccessat(AT_FDCWD, path, mode == STORE_READ_ONLY ? R_OK : R_OK | W_OK, AT_EACCESS) == 0)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: opening the store: %s", path, strerror(errno));
}

// Retries until `patience_ms` has passed. Processes that open a new file at the same time all hold a read
// lock when they change its mode. To avoid a deadlock SQLite then returns SQLITE_BUSY to some of them at
// once, without calling the busy handler (https://sqlite.org/c3ref/busy_handler.html). A fault of the first
// statement is one of the second too.
static enum status set_log_mode(struct database *database, int patience_ms, struct error *error)
{
    const int64_t until_us = clock_us() + (int64_t)patience_ms * 1000;
    enum status status;
    struct stat about;
    bool is_new = stat(database->path, &about) == 0 && about.st_size == 0;
    do {
        if (is_new) { // before the file has a page; an older store gets it in store_give_space_back
            sqlite3_busy_timeout(database->sqlite, 0);
            (void)sqlite3_exec(database->sqlite, "PRAGMA auto_vacuum = INCREMENTAL", NULL, NULL, NULL);
            sqlite3_busy_timeout(database->sqlite, patience_ms);
        }
        status = database_execute(database, "PRAGMA journal_mode = WAL", error);
    } while (status == STATUS_RETRY && (sqlite3_errcode(database->sqlite) & 0xFF) == SQLITE_BUSY &&
             clock_us() < until_us && nanosleep(&(struct timespec){.tv_nsec = BUSY_SLEEP_NS}, NULL) == 0);
    return status;
}

static enum status configure_connection(struct database *database, enum store_mode mode, struct error *error)
{
    int patience_ms = mode == STORE_CREATE_SOON ? STORE_TURN_MS : STORE_BUSY_MS;
    sqlite3_busy_timeout(database->sqlite, patience_ms);
    sqlite3_extended_result_codes(database->sqlite, 1);
    enum status status = STATUS_OK;
    if (mode != STORE_READ_ONLY)
        status = set_log_mode(database, patience_ms, error);
    if (status == STATUS_OK)
        // With NORMAL a power cut may lose the last transactions but never corrupts the file. A killed
        // process loses nothing.
        status = database_execute(database, "PRAGMA synchronous = NORMAL", error);
    if (status == STATUS_OK)
        status = database_execute(database, "PRAGMA cache_size = -65536", error);
    if (status == STATUS_OK && mode != STORE_READ_ONLY)
        status = database_execute(database, "PRAGMA journal_size_limit = 67108864",
                                  error); // size limit of the log file after a checkpoint
    if (status == STATUS_OK)              // 32 MB: a page written by many commits is copied once
        status = database_execute(database, "PRAGMA wal_autocheckpoint = 8192", error);
    return status;
}

// In WAL mode even a reader must create PATH-shm. If it can't, the file is opened as immutable
// (https://sqlite.org/wal.html#readonly). For an immutable file SQLite ignores the write-ahead log, so this
// is done only if the log is empty.
static enum status reopen_immutable(struct database *database, struct error *error)
{
    struct buffer uri = {0};
    struct stat about;
    char wal[PATH_MAX];
    int length = snprintf(wal, sizeof wal, "%s-wal", database->path);
    if (length < 0 || (size_t)length >= sizeof wal)
        return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: the path is too long", database->path);
    if (stat(wal, &about) == 0 && about.st_size > 0)
        return error_set(
            error, STATUS_REFUSE, ERROR_STORE,
            "%s: reading it needs its folder to be writable, because %s-wal holds what is not in the file"
            " yet: copy both to another folder",
            database->path, database->path);
    buffer_add_string(&uri, "file:");
    for (const char *at = database->path; *at; at++)
        buffer_add_format(&uri, strchr("%?#", *at) ? "%%%02X" : "%c", (unsigned char)*at);
    buffer_add_string(&uri, "?immutable=1");
    buffer_add_byte(&uri, '\0');
    sqlite3_close(database->sqlite);
    database->sqlite = NULL;
    enum status status = STATUS_OK;
    if (uri.failed)
        status = error_memory(error, STATUS_REFUSE, "%s: opening the store", database->path);
    else if (sqlite3_open_v2(uri.data, &database->sqlite,
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL) != SQLITE_OK)
        status = database_error(database, "opening the store", error);
    buffer_finish(&uri);
    return status == STATUS_OK ? configure_connection(database, STORE_READ_ONLY, error) : status;
}

// True if SQLite's last error says that it cannot open or share the write-ahead log.
static bool lacks_log(const struct database *database)
{
    int code = sqlite3_errcode(database->sqlite) & 0xFF;
    return code == SQLITE_CANTOPEN || code == SQLITE_READONLY || code == SQLITE_IOERR;
}

static enum status prepare_rollback(struct database *database, struct error *error)
{
    int code = sqlite3_prepare_v3(database->sqlite, "ROLLBACK", -1, SQLITE_PREPARE_PERSISTENT,
                                  &database->rollback, NULL);
    return code == SQLITE_OK ? STATUS_OK : database_error(database, "opening the store", error);
}

static enum status open_version(struct database *database, enum store_mode mode, int *version,
                                struct error *error)
{
    enum status status = configure_connection(database, mode, error);
    if (status == STATUS_OK)
        status = read_version(database, version, error);
    if (status == STATUS_OK || mode != STORE_READ_ONLY || !lacks_log(database))
        return status;
    status = reopen_immutable(database, error);
    return status == STATUS_OK ? read_version(database, version, error) : status;
}

enum status database_open(struct database *database, const char *path, enum store_mode mode,
                          struct error *error)
{
    *database = (struct database){0};
    enum status status = create_file(path, mode, error);
    if (status != STATUS_OK)
        return status;
    database->path = strdup(path);
    if (!database->path)
        return error_memory(error, STATUS_REFUSE, "%s: opening the store", path);
    int flags =
        (mode == STORE_READ_ONLY ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path, &database->sqlite, flags, NULL) != SQLITE_OK)
        status = database_error(database, "opening the store", error);
    int version = STORE_VERSION;
    if (status == STATUS_OK)
        status = open_version(database, mode, &version, error);
    if (status == STATUS_OK)
        status = prepare_rollback(database, error);
    if (status == STATUS_OK && !is_known(version) && mode == STORE_READ_ONLY)
        status = refuse_version(database, version, error);
    if (status == STATUS_OK && mode == STORE_READ_ONLY && version < 16)
        status = database_execute(database, views_of_15, error);
    if (status == STATUS_OK && version != STORE_VERSION && mode != STORE_READ_ONLY)
        status = create_schema(database, error);
    if (status == STATUS_RETRY)
        error->status = status = STATUS_REFUSE; // the store is not open, so no later call can succeed
    if (status != STATUS_OK)
        database_close(database);
    return status;
}

void database_close(struct database *database)
{
    for (int i = 0; i < database->n_statements; i++)
        sqlite3_finalize(database->statements[i].statement);
    sqlite3_finalize(database->rollback);
    sqlite3_close(database->sqlite);
    free(database->path);
    *database = (struct database){0};
}

// ---- statements ----

sqlite3_stmt *database_statement(struct database *database, const char *sql, struct error *error)
{
    for (int i = 0; i < database->n_statements; i++)
        if (database->statements[i].sql == sql) {
            sqlite3_stmt *kept = database->statements[i].statement;
            sqlite3_reset(kept);
            sqlite3_clear_bindings(kept);
            return kept;
        }
    assert(database->n_statements < DATABASE_STATEMENTS_MAX);
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v3(database->sqlite, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) !=
        SQLITE_OK) {
        (void)database_error(database, "preparing a statement", error);
        return NULL;
    }
    database->statements[database->n_statements].sql = sql;
    database->statements[database->n_statements++].statement = statement;
    return statement;
}

enum status database_run(struct database *database, sqlite3_stmt *statement, struct error *error)
{
    int code = sqlite3_step(statement);
    assert(code != SQLITE_ROW);
    enum status status = code == SQLITE_DONE ? STATUS_OK : database_error(database, "writing", error);
    sqlite3_reset(statement);
    return status;
}

static enum status end_reading(struct database *database, sqlite3_stmt *select, int code, const char *doing,
                               struct error *error)
{
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE ? STATUS_OK : database_error(database, doing, error);
}

enum status database_read_integer(struct database *database, sqlite3_stmt *select, int64_t none,
                                  int64_t *value, const char *doing, struct error *error)
{
    int code = sqlite3_step(select);
    *value = code == SQLITE_ROW ? sqlite3_column_int64(select, 0) : none;
    return end_reading(database, select, code, doing, error);
}

enum status database_read_blob(struct database *database, sqlite3_stmt *select, struct buffer *bytes,
                               const char *doing, struct error *error)
{
    int code = sqlite3_step(select);
    buffer_clear(bytes);
    if (code == SQLITE_ROW)
        buffer_add_text(bytes, column_blob(select, 0));
    enum status status = end_reading(database, select, code, doing, error);
    if (status == STATUS_OK && bytes->failed)
        return error_memory(error, STATUS_RETRY, "%s", doing);
    return status;
}

// SQLite binds a null pointer as NULL, so an empty text needs an address.
void bind_text(sqlite3_stmt *statement, int index, struct text text)
{
    sqlite3_bind_text64(statement, index, text.data, text.size, SQLITE_STATIC, SQLITE_UTF8);
}

void bind_blob(sqlite3_stmt *statement, int index, struct text bytes)
{
    sqlite3_bind_blob64(statement, index, bytes.data ? bytes.data : "", bytes.size, SQLITE_STATIC);
}

void bind_integer(sqlite3_stmt *statement, int index, int64_t value)
{
    sqlite3_bind_int64(statement, index, value);
}

void bind_nonzero(sqlite3_stmt *statement, int index, int64_t value)
{
    if (value)
        sqlite3_bind_int64(statement, index, value);
    else
        sqlite3_bind_null(statement, index);
}

void bind_integers(sqlite3_stmt *statement, int first, const int64_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sqlite3_bind_int64(statement, first + (int)i, values[i]);
}

struct text column_text(sqlite3_stmt *statement, int column)
{
    const char *data = (const char *)sqlite3_column_text(statement, column);
    return (struct text){data, (size_t)sqlite3_column_bytes(statement, column)};
}

struct text column_blob(sqlite3_stmt *statement, int column)
{
    const char *data = sqlite3_column_blob(statement, column);
    return (struct text){data, (size_t)sqlite3_column_bytes(statement, column)};
}
