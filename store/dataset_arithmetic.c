#include "store/dataset_arithmetic.h"

#include "store/dataset.h"
#include "store/table_rows.h"

#include <stdlib.h>
#include <string.h>

// ---- texts ----

static struct text next_part(const char **at)
{
    *at += strspn(*at, " ");
    struct text part = {*at, strcspn(*at, " ")};
    *at += part.size;
    return part;
}

static size_t name_size(struct text part)
{
    const char *equals = memchr(part.data, '=', part.size);
    return equals ? (size_t)(equals - part.data) : part.size;
}

// Returns the value of the named part; "none" if the part is missing.
static struct text value_of(const char *arithmetic, struct text name)
{
    for (struct text part; (part = next_part(&arithmetic)).size;) {
        size_t size = name_size(part);
        if (size == name.size && memcmp(part.data, name.data, size) == 0)
            return size < part.size ? (struct text){part.data + size + 1, part.size - size - 1} : TEXT("");
    }
    return TEXT("none");
}

void arithmetic_modules(const char *arithmetic, void (*receive)(void *context, struct text name),
                        void *context)
{
    struct text list = value_of(arithmetic, TEXT("lora-modules"));
    const char *colon;
    for (size_t size; (colon = memchr(list.data, ':', list.size)); list.data += size, list.size -= size) {
        const char *comma = memchr(list.data, ',', list.size);
        size = comma ? (size_t)(comma - list.data) : list.size;
        colon = memrchr(list.data, ':', size); // the name may have colons, the hash has none
        if (colon)
            receive(context, (struct text){list.data, (size_t)(colon - list.data)});
        size += comma != NULL;
    }
}

static void add_difference(struct buffer *out, struct text name, struct text theirs, struct text ours)
{
    buffer_add_format(out, "%s%.*s %.*s instead of %.*s", out->size ? ", " : "", (int)name.size, name.data,
                      (int)ours.size, ours.data, (int)theirs.size, theirs.data);
}

// Describes the parts that differ, as in "model b instead of a".
static void describe_differences(struct buffer *out, const char *theirs, const char *ours)
{
    const char *at = ours;
    for (struct text part; (part = next_part(&at)).size;) {
        struct text name = {part.data, name_size(part)}, before = value_of(theirs, name),
                    now = value_of(ours, name);
        if (!text_equal(before, now))
            add_difference(out, name, before, now);
    }
    at = theirs;
    for (struct text part; (part = next_part(&at)).size;) {
        struct text name = {part.data, name_size(part)};
        if (text_equals_string(value_of(ours, name), "none") &&
            !text_equals_string(value_of(theirs, name), "none"))
            add_difference(out, name, value_of(theirs, name), TEXT("none"));
    }
    buffer_add_byte(out, '\0');
}

static enum status refuse_arithmetic(const struct store *store, struct text dataset, const char *theirs,
                                     bool running, struct error *error)
{
    struct buffer differences = {0};
    describe_differences(&differences, theirs, store->arithmetic);
    (void)error_set(
        error, STATUS_REFUSE, ERROR_STORE,
        "%s: dataset %.*s has answers of another model or of other options: %s. Use the same ones, or %s",
        store->database.path, (int)dataset.size, dataset.data,
        differences.failed ? "out of memory" : differences.data,
        running ? "stop the workers that compute it" : "answer all of its jobs again with --force-new");
    buffer_finish(&differences);
    return error->status;
}

// ---- datasets ----

struct claims_on_dataset {
    bool answers, running; // running: another worker is computing jobs
};

static enum status read_claims(struct store *store, struct text dataset, struct claims_on_dataset *claims,
                               struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT n_done + n_failed > 0, EXISTS (SELECT 1 FROM queue CROSS JOIN jobs ON jobs.id = queue.job"
        " WHERE queue.worker IS NOT NULL AND queue.worker IS NOT ?2"
        " AND jobs.dataset = ?1) FROM datasets WHERE dataset = ?1",
        error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    bind_integer(select, 2, store->worker);
    int code = sqlite3_step(select);
    claims->answers = code == SQLITE_ROW && sqlite3_column_int(select, 0);
    claims->running = code == SQLITE_ROW && sqlite3_column_int(select, 1);
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "looking for answers", error);
}

static enum status bind_one(struct store *store, struct text dataset, const char *theirs, bool force_new,
                            struct error *error)
{
    struct claims_on_dataset claims = {false};
    enum status status = theirs ? read_claims(store, dataset, &claims, error) : STATUS_OK;
    if (status == STATUS_OK && (claims.running || (claims.answers && !force_new)))
        return refuse_arithmetic(store, dataset, theirs, claims.running, error);
    int64_t n_reopened;
    if (status == STATUS_OK && claims.answers && store->rows)
        status = table_rows_remove_others(store, dataset, error);
    if (status == STATUS_OK && claims.answers)
        status = dataset_reopen(store, dataset, REOPEN_DONE | REOPEN_FAILED, &n_reopened, error);
    if (status != STATUS_OK)
        return status;
    sqlite3_stmt *update = database_statement(
        &store->database,
        "UPDATE datasets SET arithmetic = ?, model = (SELECT model FROM workers WHERE id = ?)"
        " WHERE dataset = ?",
        error);
    if (!update)
        return error->status;
    bind_text(update, 1, text_from_string(store->arithmetic));
    bind_integer(update, 2, store->worker);
    bind_text(update, 3, dataset);
    return database_run(&store->database, update, error);
}

// Finds a dataset that is not bound to this worker's arithmetic. The caller frees *name and *theirs. *name
// becomes NULL if no such dataset is left.
static enum status next_unbound(struct store *store, struct text dataset, char **name, char **theirs,
                                struct error *error)
{
    static const char *const queries[] = {
        "SELECT dataset, arithmetic FROM datasets WHERE n_submitted > n_done + n_failed + n_cancelled"
        " AND arithmetic IS NOT ?1 LIMIT 1",
        "SELECT dataset, arithmetic FROM datasets WHERE dataset = ?2 AND arithmetic IS NOT ?1"};
    sqlite3_stmt *select = database_statement(&store->database, queries[dataset.size > 0], error);
    if (!select)
        return error->status;
    bind_text(select, 1, text_from_string(store->arithmetic));
    if (dataset.size)
        bind_text(select, 2, dataset);

    int code = sqlite3_step(select);
    bool complete = true;
    if (code == SQLITE_ROW) {
        const char *texts[] = {(const char *)sqlite3_column_text(select, 0),
                               (const char *)sqlite3_column_text(select, 1)};
        *name = texts[0] ? strdup(texts[0]) : NULL;
        *theirs = texts[1] ? strdup(texts[1]) : NULL;
        complete = *name && (!texts[1] || *theirs);
    }
    sqlite3_reset(select);
    if (!complete)
        return error_memory(error, STATUS_RETRY, "looking for datasets");
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "looking for datasets", error);
}

enum status dataset_arithmetic_bind(struct store *store, struct text dataset, bool force_new,
                                    struct error *error)
{
    enum status status = STATUS_OK;
    for (bool more = store->arithmetic != NULL; more && status == STATUS_OK;) {
        char *name = NULL, *theirs = NULL;
        status = next_unbound(store, dataset, &name, &theirs, error);
        more = status == STATUS_OK && name;
        if (more)
            status = bind_one(store, text_from_string(name), theirs, force_new, error);
        free(name);
        free(theirs);
    }
    return status;
}
