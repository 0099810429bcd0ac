#include "store/dataset_name.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct dataset_name {
    struct dataset_name *next;
    struct text dataset, topic; // name and topic of the jobs
    struct text name;
};

// True if jobs of `topic` may use the name. All rows of a name have the same topic. If the rows were
// compacted, a fingerprint shows that the name belongs to the embedded queue, because datasets from Kafka
// have none.
static enum status name_is_free(struct store *store, struct text dataset, struct text topic, bool *is_free,
                                struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT coalesce((SELECT topic IS NOT ?1 FROM jobs WHERE dataset = ?2 LIMIT 1),"
                           " (SELECT fingerprint IS NOT NULL FROM datasets WHERE dataset = ?2), 0)",
                           error);
    if (!select)
        return error->status;
    bind_text(select, 1, topic);
    bind_text(select, 2, dataset);
    int code = sqlite3_step(select);
    *is_free = code == SQLITE_ROW && sqlite3_column_int(select, 0) == 0;
    sqlite3_reset(select);
    return code == SQLITE_ROW ? STATUS_OK
                              : database_error(&store->database, "looking for a dataset's topic", error);
}

static enum status add_name(struct store *store, struct dataset_names *names, struct text dataset,
                            struct text topic, struct text *name, struct error *error)
{
    bool is_free = false;
    size_t size = dataset.size + 1 + topic.size;
    enum status status = name_is_free(store, dataset, topic, &is_free, error);
    if (status != STATUS_OK)
        return status;
    struct dataset_name *item = arena_allocate(&names->arena, sizeof *item);
    char *other = is_free ? NULL : arena_allocate(&names->arena, size + 1);
    if (!item || (!is_free && !other))
        return error_memory(error, STATUS_RETRY, "a dataset's name");
    if (other)
        snprintf(other, size + 1, "%.*s@%.*s", (int)dataset.size, dataset.data, (int)topic.size, topic.data);
    *name = other ? (struct text){other, size} : dataset;
    *item = (struct dataset_name){names->first, dataset, topic, *name};
    names->first = item;
    return STATUS_OK;
}

enum status dataset_name_of(struct store *store, struct dataset_names *names, struct text dataset,
                            struct text topic, struct text *name, struct error *error)
{
    *name = dataset;
    if (topic.size == 0)
        return STATUS_OK;
    for (const struct dataset_name *item = names->first; item; item = item->next)
        if (text_equal(item->dataset, dataset) && text_equal(item->topic, topic)) {
            *name = item->name;
            return STATUS_OK;
        }
    return add_name(store, names, dataset, topic, name, error);
}

void dataset_names_finish(struct dataset_names *names)
{
    arena_finish(&names->arena);
}

enum status dataset_name_check_queue(struct store *store, struct text dataset, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT topic FROM jobs WHERE dataset = ? LIMIT 1", error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    int code = sqlite3_step(select);
    enum status status = STATUS_OK;
    if (code == SQLITE_ROW && sqlite3_column_type(select, 0) != SQLITE_NULL) {
        struct text topic = column_text(select, 0);
        status = error_set(
            error, STATUS_REFUSE, ERROR_STORE,
            "%s: dataset %.*s is one of topic %.*s in this store: submit under another name, or into"
            " another store",
            store->database.path, (int)dataset.size, dataset.data, (int)topic.size, topic.data);
    }
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? status
               : database_error(&store->database, "looking for a dataset's topic", error);
}

struct text dataset_name_before(struct text dataset, char name[BEFORE_NAME_BYTES])
{
    static const char suffix[] = "~before";
    size_t size = sizeof suffix - 1;
    assert(dataset.size + size <= BEFORE_NAME_BYTES);
    memset(name, '~', BEFORE_NAME_BYTES);
    memcpy(name, dataset.data, dataset.size);
    memcpy(name + dataset.size, suffix, size);
    return (struct text){name, BEFORE_NAME_BYTES};
}
